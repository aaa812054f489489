"""What is minimised: an objective of model and batch, of which a loss of logits is the common case."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Batch:
    """Samples with their labels and their places in the training set."""

    inputs: Tensor  # [N, ...]
    labels: Tensor  # [N]
    indices: Tensor  # [N]


class Loss(Protocol):
    """Maps logits [N, K] and labels [N] to one value per sample [N]; training minimises their mean.

    One whose values depend on the other samples of the batch says so by `couples_samples = True`.
    """

    def __call__(self, logits: Tensor, labels: Tensor, /) -> Tensor: ...


class Objective(Protocol):
    """Maps a model and a batch to one value per sample [N]; training minimises their mean."""

    def __call__(self, model: nn.Module, batch: Batch, /) -> Tensor: ...


@dataclass(frozen=True)
class Lifted:
    """A loss of logits and labels as an objective."""

    loss: Loss

    def __call__(self, model: nn.Module, batch: Batch, /) -> Tensor:
        return self.loss(model(batch.inputs), batch.labels)


def couples_samples(loss: Loss | Objective) -> bool:
    """Whether a sample's value depends on the other samples of its batch; such a loss has no curvature per sample."""
    return bool(getattr(loss.loss if isinstance(loss, Lifted) else loss, "couples_samples", False))
