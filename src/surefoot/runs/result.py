"""How a call of `run` ended."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Ended:
    """The run's status, why, and what a reader should know."""

    status: str  # done, diverged, interrupted, failed
    reason: str = ""
    notes: tuple[str, ...] = ()
    reused: bool = False  # nothing was computed: the run had ended before
