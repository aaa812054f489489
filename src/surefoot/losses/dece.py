"""Differentiable expected calibration error."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from surefoot.losses._outputs import wide
from surefoot.losses._penalised import Penalised, check_at_least_zero


@dataclass(frozen=True)
class DECE(Penalised):
    r"""Cross-entropy + strength D: D is the ECE of the batch with soft bins and soft accuracy.

    D = 1/N sum_j |sum_i u_ij (a_i - r_i)|. Accuracy a = relu(2 - rank) by the soft rank of the true class,
    1/2 + sum_k s(accuracy_slope (p_k - p_y)), s the logistic function, so that the slope goes through accuracy too.
    Bins u = softmax_j((r (j + 1) - sum_{l<=j} l / M) / bin_temperature) of the confidence r, with their code's floor of
    1e-6. D in [0, 1]. Bohdal et al. 2023: temperatures and bins of their code, where D is the objective of a
    meta-learner with strength 0.5; beside a loss, as here, nobody has published one. Couples the samples of a batch.
    """

    couples_samples: ClassVar[bool] = True

    strength: float = 0.5
    num_bins: int = 15
    accuracy_slope: float = 100.0
    bin_temperature: float = 0.01

    def __post_init__(self) -> None:
        check_at_least_zero(self, "strength")
        if self.num_bins < 1:
            raise ValueError(f"`num_bins` must be at least 1, got {self.num_bins}.")
        for name in ("accuracy_slope", "bin_temperature"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"`{name}` must be positive and finite, got {getattr(self, name)}.")

    def penalty(self, logits: Tensor, labels: Tensor) -> Tensor:
        """D []."""
        p = wide(logits).softmax(dim=1)
        rank = 0.5 + (self.accuracy_slope * (p - p.gather(1, labels.long()[:, None]))).sigmoid().sum(dim=1)
        accuracy = F.relu(2 - rank)
        confidence = p.amax(dim=1)
        number = torch.arange(self.num_bins, device=p.device).to(p)
        cuts = (number / self.num_bins).cumsum(dim=0)
        belongs = ((confidence[:, None] * (number + 1) - cuts) / self.bin_temperature).softmax(dim=1)  # [N, M]
        belongs = (belongs + 1e-6) / (1 + (self.num_bins + 1) * 1e-6)
        return (belongs * (accuracy - confidence)[:, None]).sum(dim=0).abs().sum() / len(p)
