"""How a call of `run` ended."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RunResult:
    """The run's status, the reason for it, and notes for the reader."""

    status: str  # done, diverged, interrupted, failed
    reason: str = ""
    notes: tuple[str, ...] = ()
    reused: bool = False  # nothing was computed: the run had ended before
