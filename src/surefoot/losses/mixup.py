"""Mixup."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.losses._draws import Draws
from surefoot.losses._outputs import wide
from surefoot.losses.objective import Batch


class Mixup(Draws):
    r"""Cross-entropy on mixtures of two samples, to both labels by their shares.

    x = share x_i + (1 - share) x_j with j the partner of i in a random permutation of the batch and one share ~
    Beta(alpha, alpha) for all; the value is share (-ln p_{y_i}(x)) + (1 - share) (-ln p_{y_j}(x)). Range [0, inf).
    Zhang et al. 2018, whose alpha of 1 is the default; for calibration Thulasidasan et al. 2019, who take less. Couples
    the samples of a batch. Remembers the number of steps, for its draws. One gradient.
    """

    couples_samples: ClassVar[bool] = True

    def __init__(self, *, alpha: float = 1.0, seed: int = 0) -> None:
        super().__init__(seed=seed)
        if not alpha > 0:
            raise ValueError(f"`alpha` must be positive, got {alpha}.")
        self.alpha = alpha

    def __call__(self, model: nn.Module, batch: Batch, /) -> Tensor:
        generator = self.generator(batch)
        share = float(generator.beta(self.alpha, self.alpha))
        partner = torch.from_numpy(generator.permutation(len(batch.labels))).to(batch.labels.device)
        mixed = mixture(batch.inputs, batch.inputs[partner], share)
        return mixed_cross_entropy(model(mixed), batch.labels, batch.labels[partner], share)


def mixture(first: Tensor, second: Tensor, share: float) -> Tensor:
    """That `share` of the first and the rest of the second."""
    return share * first + (1 - share) * second


def mixed_cross_entropy(logits: Tensor, first: Tensor, second: Tensor, share: float) -> Tensor:
    """Cross-entropy to the first labels by their share and to the second by the rest."""
    logits = wide(logits)
    one, other = (F.cross_entropy(logits, labels, reduction="none") for labels in (first, second))
    return share * one + (1 - share) * other  # [N]
