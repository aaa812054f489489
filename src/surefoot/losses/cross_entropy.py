"""Cross-entropy."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from surefoot.losses.outputs import wide


@dataclass(frozen=True)
class CrossEntropy:
    """Minus the log-probability of the true class; its logit Hessian is diag(p) - p p^T."""

    def __call__(self, logits: Tensor, labels: Tensor, /) -> Tensor:
        return F.cross_entropy(wide(logits), labels, reduction="none")  # [N]
