"""What is minimised: an objective of model and batch, of which a loss of logits is the common case."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from surefoot.predictions import Predictions


@dataclass(frozen=True, eq=False)
class Batch:
    """Samples with their labels and their places in the training set."""

    inputs: Tensor  # [N, ...]
    labels: Tensor  # [N]
    indices: Tensor  # [N]; -1 for samples that are not of the training set


class Loss(Protocol):
    """Maps logits [N, K] and labels [N] to one value per sample [N]; training minimises their mean.

    One whose values depend on the other samples of the batch says so by `couples_samples = True`.
    """

    def __call__(self, logits: Tensor, labels: Tensor, /) -> Tensor: ...


class Objective(Protocol):
    """Maps a model and a batch to one value per sample [N]; training minimises their mean."""

    def __call__(self, model: nn.Module, batch: Batch, /) -> Tensor: ...


@runtime_checkable
class Remembering(Protocol):
    """What a loss or an objective offers beside its values if they depend on the steps before.

    Its values must not change by being asked for: an optimizer asks twice for one step, observers ask in between.
    """

    def after_step(self, batch: Batch, logits: Tensor) -> None:
        """After an optimizer step: its batch, and what the model returned first for it, without a graph."""
        ...

    def after_epoch(self, validation: Predictions | None) -> None:
        """After each epoch: what the model predicts on the validation set, if there is one."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """All that is remembered, as tensors and plain values."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        ...


@dataclass(frozen=True)
class Lifted:
    """A loss of logits and labels as an objective."""

    loss: Loss

    def __call__(self, model: nn.Module, batch: Batch, /) -> Tensor:
        return self.loss(model(batch.inputs), batch.labels)


def innermost(objective: Loss | Objective) -> Loss | Objective:
    """The loss that was lifted, or else the objective itself."""
    return objective.loss if isinstance(objective, Lifted) else objective


def loss_within(objective: Loss | Objective) -> Loss | None:
    """The loss of logits whose curvature is meant: the one lifted, or what an objective adds its terms to."""
    return objective.loss if isinstance(objective, Lifted) else getattr(objective, "within", None)


def couples_samples(objective: Loss | Objective) -> bool:
    """Whether a sample's value depends on the other samples of its batch; such a loss has no curvature per sample."""
    return bool(getattr(innermost(objective), "couples_samples", False))


def memory_of(objective: Loss | Objective) -> Remembering | None:
    """The loss or objective if it remembers."""
    inner = innermost(objective)
    return inner if isinstance(inner, Remembering) else None
