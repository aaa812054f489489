"""Focal loss."""

from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.losses._outputs import power, true_log_probability
from surefoot.losses._penalised import check_at_least_zero


@dataclass(frozen=True)
class Focal:
    r"""-(1 - p)^gamma ln p with p the true class's probability: cross-entropy that tires of samples it has learnt.

    Range [0, inf). Lin et al. 2017, for calibration Mukhoti et al. 2020, whose gamma of 3 is the default; they sum over
    the batch and clip gradients to norm 2, where training here takes the mean. gamma = 0 is cross-entropy.
    """

    gamma: float = 3.0

    def __post_init__(self) -> None:
        check_at_least_zero(self, "gamma")

    def __call__(self, logits: Tensor, labels: Tensor, /) -> Tensor:
        logp = true_log_probability(logits, labels)
        return -power(-torch.expm1(logp), self.gamma) * logp  # [N]
