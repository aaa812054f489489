"""Cross-entropy with a penalty beside it."""

from abc import ABC, abstractmethod

from torch import Tensor
from torch.nn import functional as F

from surefoot.losses._outputs import wide


class Penalised(ABC):
    """Cross-entropy + `strength` x penalty, where the penalty is one value per sample, or one of the whole batch.

    A penalty of the batch is added to every sample, so that the mean over samples is the total.
    """

    strength: float

    @abstractmethod
    def penalty(self, logits: Tensor, labels: Tensor) -> Tensor:
        """What is added, before its strength: [N] or []."""

    def base(self, logits: Tensor, labels: Tensor) -> Tensor:
        """What it is added to."""
        return F.cross_entropy(wide(logits), labels.long(), reduction="none")  # [N]

    def __call__(self, logits: Tensor, labels: Tensor, /) -> Tensor:
        return self.base(logits, labels) + self.strength * self.penalty(logits, labels)  # [N]

    def weighted(self, logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """The cross-entropy times `weights` [N]; the penalty as it is."""
        return weights * self.base(logits, labels) + self.strength * self.penalty(logits, labels)


def check_at_least_zero(thing: object, *names: str) -> None:
    """Raise ValueError unless the attributes are numbers of at least 0."""
    for name in names:
        if not getattr(thing, name) >= 0:
            raise ValueError(f"`{name}` must be at least 0, got {getattr(thing, name)}.")
