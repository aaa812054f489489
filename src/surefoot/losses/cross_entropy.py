"""Cross-entropy."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from surefoot.losses._outputs import wide


@dataclass(frozen=True)
class CrossEntropy:
    """Minus the log-probability of the true class; its logit Hessian is diag(p) - p p^T."""

    def __call__(self, logits: Tensor, labels: Tensor, /) -> Tensor:
        return F.cross_entropy(wide(logits), labels, reduction="none")  # [N]

    def hessian_product(self, logits: Tensor, vectors: Tensor) -> Tensor:
        """(diag p - p p^T) v for vectors [..., N, K], with all digits also where p is nearly 1: nothing cancels.

        A constant added to v changes nothing, so the entry of the largest class is made 0, and its p is not needed.
        """
        exact = logits.double() if logits.device.type != "mps" else logits
        p = exact.softmax(dim=1)
        top = F.one_hot(logits.argmax(dim=1), num_classes=logits.shape[1]).to(p)
        moved = vectors.to(p) - (vectors.to(p) * top).sum(dim=-1, keepdim=True)
        return (p * (moved - (p * moved).sum(dim=-1, keepdim=True))).to(vectors)
