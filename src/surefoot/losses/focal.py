"""Focal loss."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Focal:
    r"""-(1 - p)^gamma ln p with p the true class's probability: cross-entropy that tires of samples it has learnt.

    Lin et al. 2017, for calibration Mukhoti et al. 2020. gamma = 0 is cross-entropy.
    """

    gamma: float = 3.0

    def __post_init__(self) -> None:
        if not self.gamma >= 0:
            raise ValueError(f"`gamma` must be at least 0, got {self.gamma}.")

    def __call__(self, logits: Tensor, labels: Tensor, /) -> Tensor:
        logp = logits.log_softmax(dim=1).gather(1, labels[:, None]).squeeze(1)
        rest = -torch.expm1(logp)
        return -rest.clamp(min=1e-12).pow(self.gamma) * logp  # [N]; powers of 0 have no finite slopes
