"""Margin and consistency supervision."""

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.losses._draws import Draws
from surefoot.losses._outputs import margin, wide
from surefoot.losses._penalised import check_at_least_zero
from surefoot.losses.objective import Batch


class MaCS(Draws):
    r"""Cross-entropy + pull relu(margin - m)^2 + agree KL(p(x) || p(x')): margins of at least `margin`, noise unseen.

    m = z_y - max_{j != y} z_j, and x' is x with Gaussian noise of deviation `noise`, in units of the inputs, and, for
    images, a Gaussian blur of deviation `blur` pixels. No slope goes through p(x) in the divergence;
    `divergence="from_shifted"` is KL(p(x') || p(x)). Range [0, inf).

    After Khazem 2026, of which only a summary could be read: margin 1 is from there, while both weights, noise, blur,
    the divergence's direction and where its slope goes are ours. Remembers the number of steps, for its draws. Two
    forward and backward passes, which both count for batch norm.
    """

    def __init__(
        self,
        *,
        margin: float = 1.0,
        pull: float = 0.1,
        agree: float = 1.0,
        noise: float = 0.2,  # 0.05 in units of pixels in [0, 1], where these deviate by a quarter
        blur: float = 0.0,
        divergence: Literal["from_clean", "from_shifted"] = "from_clean",
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        self.margin, self.pull, self.agree, self.noise, self.blur = margin, pull, agree, noise, blur
        check_at_least_zero(self, "pull", "agree", "noise", "blur")
        if divergence not in ("from_clean", "from_shifted"):
            raise ValueError(f"`divergence` must be 'from_clean' or 'from_shifted', got {divergence!r}.")
        self.divergence = divergence

    def __call__(self, model: nn.Module, batch: Batch, /) -> Tensor:
        logits = wide(model(batch.inputs))
        shifted = wide(model(self.shifted(batch)))
        base = F.cross_entropy(logits, batch.labels, reduction="none")
        return base + self.pull * self.hinge(logits, batch.labels) + self.agree * self.apart(logits, shifted)  # [N]

    def hinge(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The squared lack of margin [N]."""
        return F.relu(self.margin - margin(logits, labels)).square()

    def apart(self, clean: Tensor, shifted: Tensor) -> Tensor:
        """The divergence of both predictions [N]."""
        fixed, moving = clean.detach().log_softmax(dim=1), shifted.log_softmax(dim=1)
        first, second = (fixed, moving) if self.divergence == "from_clean" else (moving, fixed)
        return (first.exp() * (first - second)).sum(dim=1)

    def shifted(self, batch: Batch) -> Tensor:
        """The inputs, blurred and with noise."""
        inputs = blurred(batch.inputs, self.blur) if self.blur else batch.inputs
        seed = int(self.generator(batch).integers(2**63))
        generator = torch.Generator().manual_seed(seed)
        noise = torch.randn(inputs.shape, generator=generator, dtype=torch.float32, device="cpu")
        return inputs + self.noise * noise.to(inputs)


def blurred(images: Tensor, deviation: float) -> Tensor:
    """Images [N, C, H, W] under a Gaussian blur, mirrored at their borders."""
    if images.ndim != 4:
        raise ValueError(f"`blur` must be 0 unless inputs are images [N, C, H, W], got shape {list(images.shape)}.")
    reach = min(math.ceil(3 * deviation), min(images.shape[2:]) - 1)
    places = torch.arange(-reach, reach + 1, device=images.device).to(images)
    taps = (-0.5 * (places / deviation).square()).exp()
    taps = taps / taps.sum()
    flat = images.flatten(0, 1).unsqueeze(1)  # every channel on its own
    flat = F.conv2d(F.pad(flat, (reach, reach, reach, reach), mode="reflect"), taps.view(1, 1, -1, 1))
    return F.conv2d(flat, taps.view(1, 1, 1, -1)).view_as(images)
