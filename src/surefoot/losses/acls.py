"""Adaptive and conditional label smoothing."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class ACLS:
    r"""Cross-entropy + strength R: R pulls a logit above `margin` down and those far below the largest one up.

    R = high relu(z_max - margin)^2 + low / (K - 1) sum_k relu(sg(z_max) - z_k - margin)^2 over the classes below the
    largest, sg meaning that no slope goes through it; entries that tie with the largest count as largest. Park et al.
    2023, as their code has it: not invariant to adding a constant to all logits.
    """

    strength: float = 0.1
    margin: float = 10.0
    high: float = 1.0
    low: float = 0.1

    def __post_init__(self) -> None:
        for name in ("strength", "margin", "high", "low"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"`{name}` must be at least 0, got {getattr(self, name)}.")

    def __call__(self, logits: Tensor, labels: Tensor, /) -> Tensor:
        return F.cross_entropy(logits, labels, reduction="none") + self.strength * self._pull(logits)  # [N]

    def weighted(self, logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """The cross-entropy times `weights` [N]; the regulariser as it is."""
        return weights * F.cross_entropy(logits, labels, reduction="none") + self.strength * self._pull(logits)

    def _pull(self, logits: Tensor) -> Tensor:
        largest = logits.max(dim=1, keepdim=True).values.detach()
        top = logits == largest
        over = F.relu(logits - self.margin).square() * top
        under = F.relu(largest - logits - self.margin).square() * ~top
        return self.high * over.sum(dim=1) + self.low / (logits.shape[1] - 1) * under.sum(dim=1)
