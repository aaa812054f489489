"""What the caller of a run decides that does not change its numbers."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class RunControl:
    """How often a run saves a checkpoint, and the callbacks to whoever started it.

    Args:
        checkpoint_seconds: Seconds between two checkpoints.
        on_progress: Is called a few times a second with the gradients spent and the budget.
        should_stop: Is called after every step; where it returns True the run saves a checkpoint and ends.
    """

    checkpoint_seconds: float = 20.0
    on_progress: Callable[[int, int], None] = lambda done, budget: None
    should_stop: Callable[[], bool] = lambda: False
