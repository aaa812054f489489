"""What a study asks of an engine: do these trials, tell what happens, say how each ended."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from surefoot.runs.spec import RunSpec


@dataclass(frozen=True)
class Trial:
    """One run to do, where it goes, and what it needs while it runs."""

    spec: RunSpec
    folder: Path
    anew: bool = False  # it had ended and is asked for again
    retries: int = 2  # how often it is resumed after the process that did it died

    @property
    def id(self) -> str:
        """The run's."""
        return self.spec.id

    @property
    def cpus(self) -> int:
        """Cores that it keeps busy."""
        return self.spec.num_threads

    @property
    def gpus(self) -> int:
        """Graphics cards: none unless the spec names the device, because "auto" takes what there is."""
        return int(self.spec.device == "cuda")


@dataclass(frozen=True)
class Event:
    """Something to tell about one run: started, progress, ended (with its status), or lost (its process died)."""

    kind: str
    spec: RunSpec
    done: int = 0  # gradients
    status: str = ""
    reason: str = ""
    notes: tuple[str, ...] = ()


class Engine(Protocol):
    """Does trials, several at a time."""

    def run(self, trials: Sequence[Trial], *, tell: Callable[[Event], None]) -> dict[str, Event]:
        """Do every trial in its folder; returns how each ended, by run id.

        A trial whose process died is resumed, `retries` times; one that fails is reported and the others go on. On
        KeyboardInterrupt what runs is asked to save a checkpoint.
        """
        ...
