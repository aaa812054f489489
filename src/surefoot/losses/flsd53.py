"""Focal loss whose exponent depends on the sample."""

from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.losses._outputs import power, true_log_probability
from surefoot.losses._penalised import check_at_least_zero


@dataclass(frozen=True)
class FLSD53:
    r"""Focal loss with exponent 5 where the true class has p < 0.2, 3 where p < 0.5, and `gamma` from there on.

    The exponent is a constant to the gradient. Range [0, inf). Mukhoti et al. 2020: gamma = 3 is their FLSD-53,
    gamma = 2 their FLSD-52; they sum over the batch and clip gradients to norm 2, where training here takes the mean.
    """

    gamma: float = 3.0

    def __post_init__(self) -> None:
        check_at_least_zero(self, "gamma")

    def __call__(self, logits: Tensor, labels: Tensor, /) -> Tensor:
        logp = true_log_probability(logits, labels)
        p = logp.detach().exp()
        surer = torch.where(p < 0.5, 3.0, self.gamma)
        exponent = torch.where(p < 0.2, 5.0, surer).to(p)
        return -power(-torch.expm1(logp), exponent) * logp  # [N]
