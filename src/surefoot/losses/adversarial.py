"""Adversarial training."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from surefoot.attack import quick_shift
from surefoot.losses._forward_passes import ForwardPasses, movable
from surefoot.losses.cross_entropy import CrossEntropy
from surefoot.losses.objective import Batch


@dataclass(frozen=True)
class Adversarial:
    r"""Cross-entropy at x + delta, delta the shift of length `radius` sqrt(D) that raises it most, to first order.

    D is the number of coordinates of an input. Goodfellow et al. 2015, with l2 in the place of their largest
    coordinate; `num_steps` above 1 go on as `surefoot.attack.quick_shift` says. No slope goes through delta. Range [0,
    inf). Two forward and backward passes, of which the first counts for batch norm.
    """

    radius: float = 0.05
    num_steps: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.radius < math.inf:
            raise ValueError(f"`radius` must be positive and finite, got {self.radius}.")
        if self.num_steps < 1:
            raise ValueError(f"`num_steps` must be at least 1, got {self.num_steps}.")

    def __call__(self, model: nn.Module, batch: Batch, /) -> Tensor:
        loss, passes = CrossEntropy(), ForwardPasses(model)
        with torch.enable_grad():
            point = movable(batch.inputs)
            shift = quick_shift(
                lambda inputs: -loss(passes.again(inputs), batch.labels),
                point,
                -loss(passes.first(point), batch.labels),
                radius=self.radius * math.sqrt(point.shape[1:].numel()),
                num_steps=self.num_steps,
            )
        return loss(passes.again(batch.inputs + shift), batch.labels)  # [N]
