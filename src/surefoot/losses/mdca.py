"""Multi-class difference of confidence and accuracy."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor
from torch.nn import functional as F

from surefoot.losses._outputs import wide
from surefoot.losses._penalised import Penalised, check_at_least_zero
from surefoot.losses.focal import Focal
from surefoot.losses.label_smoothing import LabelSmoothing


@dataclass(frozen=True)
class MDCA(Penalised):
    r"""Base loss + strength mean_k |mean_i p_ik - share of samples with label k|: every class as often as it is there.

    The means over i are over the batch; classes that it lacks count too. Penalty in [0, 2 / K]. Hebbalaguppe et al.
    2022 with the strength of their scripts. `base_loss` is "cross_entropy", "focal" with `gamma`, or "label_smoothing"
    with `smoothing` spread over the other classes. Couples the samples of a batch.
    """

    couples_samples: ClassVar[bool] = True

    strength: float = 1.0
    base_loss: Literal["cross_entropy", "focal", "label_smoothing"] = "cross_entropy"
    gamma: float = 1.0  # of focal loss
    smoothing: float = 0.1  # of label smoothing

    def __post_init__(self) -> None:
        check_at_least_zero(self, "strength", "gamma")
        bases = ("cross_entropy", "focal", "label_smoothing")
        if self.base_loss not in bases:
            raise ValueError(f"`base_loss` must be one of {', '.join(bases)}, got {self.base_loss!r}.")
        LabelSmoothing(self.smoothing)

    def base(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss named [N]."""
        if self.base_loss == "focal":
            return Focal(self.gamma)(logits, labels)
        if self.base_loss == "label_smoothing":
            return LabelSmoothing(self.smoothing, over="others")(logits, labels)
        return super().base(logits, labels)

    def penalty(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The mean difference over classes []."""
        p = wide(logits).softmax(dim=1)
        there = F.one_hot(labels.long(), num_classes=p.shape[1]).to(p)
        return (p.mean(dim=0) - there.mean(dim=0)).abs().mean()
