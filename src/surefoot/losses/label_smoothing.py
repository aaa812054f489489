"""Label smoothing."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from surefoot.losses._outputs import wide


@dataclass(frozen=True)
class LabelSmoothing:
    r"""Cross-entropy to a target that gives `smoothing` a away from the true class.

    `over="all"` spreads it over all classes, (1 - a) (-ln p_y) + a mean_k (-ln p_k), as torch's own does: the true
    class keeps 1 - a + a / K. `over="others"` spreads it over the others, so that the true class keeps 1 - a; that is
    "all" with a K / (K - 1). Range [0, inf). 0.05 is the default of the calibration literature (Mukhoti et al. 2020,
    Liu et al. 2022); 0.1 with "others" is usual elsewhere. smoothing = 0 is cross-entropy.
    """

    smoothing: float = 0.05
    over: Literal["all", "others"] = "all"

    def __post_init__(self) -> None:
        if not 0 <= self.smoothing <= 1:
            raise ValueError(f"`smoothing` must lie in [0, 1], got {self.smoothing}.")
        if self.over not in ("all", "others"):
            raise ValueError(f"`over` must be 'all' or 'others', got {self.over!r}.")

    def __call__(self, logits: Tensor, labels: Tensor, /) -> Tensor:
        share = self.smoothing
        if self.over == "others":
            share = share * logits.shape[1] / (logits.shape[1] - 1)
        return smoothed_cross_entropy(logits, labels, share)


def smoothed_cross_entropy(logits: Tensor, labels: Tensor, share: float | Tensor) -> Tensor:
    """(1 - share) (-ln p_y) + share mean_k (-ln p_k), the share a number or one per sample."""
    logp = wide(logits).log_softmax(dim=1)
    of_true = logp.gather(1, labels.long()[:, None]).squeeze(1)
    return -(1 - share) * of_true - share * logp.mean(dim=1)  # [N]
