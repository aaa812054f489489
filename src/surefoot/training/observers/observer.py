"""What every observer offers."""

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor

from surefoot.training.snapshot import Snapshot


class Observer(Protocol):
    """Looks at a snapshot and returns numbers under keys `split/quantity`, the quantities among `quantities`.

    It may keep state of its own (a warm start), which a checkpoint carries; it never writes files, moves weights,
    touches gradients, changes a mode or draws from the global generator. One that is picky about data may have
    `check(splits)`, which a run calls before it begins; one that is dear may wait for `snapshot.last`.
    """

    quantities: tuple[str, ...]

    def __call__(self, snapshot: Snapshot) -> dict[str, float]: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Stateless:
    """The state methods of an observer that remembers nothing."""

    def state_dict(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing to do."""


def keyed(split: str, quantities: Sequence[str], values: Sequence[Tensor | float]) -> dict[str, float]:
    """The values as numbers under `split/quantity`."""
    return {f"{split}/{name}": float(value) for name, value in zip(quantities, values, strict=True)}
