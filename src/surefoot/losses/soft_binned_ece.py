"""Calibration error over soft bins."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from surefoot.losses._outputs import top_label
from surefoot.losses._penalised import Penalised, check_at_least_zero


@dataclass(frozen=True)
class SoftBinnedECE(Penalised):
    r"""Cross-entropy + strength E: E is the ECE of the batch over bins that a confidence belongs to by degrees.

    Confidence r belongs to bin j by u_j = softmax_j(-(r - x_j)^2 / temperature), x_j the bins' centres.

    - `form="root"`: E = sqrt(sum_j S_j / N (conf_j - acc_j)^2), S_j = sum_i u_ij, means in bins weighted by u; centres
      evenly over [0, 1].
    - `form="label_binned"`: E = mean_i sum_j u_ij (acc_j - r_i)^2; centres evenly over [1 / K, 1].

    The slope goes through r, never through correctness. E in [0, 1]. Karandikar et al. 2021; number of bins,
    temperature and strength are ours, because theirs were tuned per task. Couples the samples of a batch.
    """

    couples_samples: ClassVar[bool] = True

    strength: float = 1.0
    num_bins: int = 15
    temperature: float = 0.01
    form: Literal["root", "label_binned"] = "root"

    def __post_init__(self) -> None:
        check_at_least_zero(self, "strength")
        if self.num_bins < 1:
            raise ValueError(f"`num_bins` must be at least 1, got {self.num_bins}.")
        if not self.temperature > 0:
            raise ValueError(f"`temperature` must be positive, got {self.temperature}.")
        if self.form not in ("root", "label_binned"):
            raise ValueError(f"`form` must be 'root' or 'label_binned', got {self.form!r}.")

    def penalty(self, logits: Tensor, labels: Tensor) -> Tensor:
        """E []."""
        confidence, correct = top_label(logits, labels)
        least = 1 / logits.shape[1] if self.form == "label_binned" else 0.0
        places = (torch.arange(self.num_bins, device=confidence.device).to(confidence) + 0.5) / self.num_bins
        centres = least + (1 - least) * places
        belongs = (-(confidence[:, None] - centres).square() / self.temperature).softmax(dim=1)  # [N, M]
        if self.form == "label_binned":
            belongs = (1 - 1e-5) * belongs + 1e-5 / self.num_bins
        mass = belongs.sum(dim=0)
        accuracy = (belongs * correct[:, None]).sum(dim=0) / mass.clamp(min=1e-5)
        if self.form == "label_binned":
            return (belongs * (accuracy - confidence[:, None]).square()).sum(dim=1).mean()
        mean_confidence = (belongs * confidence[:, None]).sum(dim=0) / mass.clamp(min=1e-5)
        square = (mass * (mean_confidence - accuracy).square()).sum() / mass.sum()
        return (square + 1e-12).sqrt()  # a root has no slope at 0
