"""A penalty on the slope in the inputs."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from surefoot.losses._forward_passes import movable
from surefoot.losses._penalised import check_at_least_zero
from surefoot.losses.cross_entropy import CrossEntropy
from surefoot.losses.objective import Batch, Loss


@dataclass(frozen=True)
class InputGradient:
    r"""Cross-entropy + strength ||its slope in the input||^2. Range [0, inf).

    Drucker and LeCun 1992; for robustness Ross and Doshi-Velez 2018. The strength is ours. The slope is differentiated
    again, so layers need second derivatives; what has kinks only (ReLU) has them almost everywhere. About three
    gradients.
    """

    within: ClassVar[Loss] = CrossEntropy()
    strength: float = 1.0

    def __post_init__(self) -> None:
        check_at_least_zero(self, "strength")

    def __call__(self, model: nn.Module, batch: Batch, /) -> Tensor:
        wanted = torch.is_grad_enabled()
        with torch.enable_grad():
            point = movable(batch.inputs)
            value = self.within(model(point), batch.labels)
            (slope,) = torch.autograd.grad(value.sum(), point, create_graph=wanted, materialize_grads=True)
        penalty = slope.to(value).flatten(1).square().sum(dim=1)
        return (value if wanted else value.detach()) + self.strength * penalty  # [N]
