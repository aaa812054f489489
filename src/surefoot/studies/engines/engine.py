"""What a study asks of an engine: do these trials, report events, return how each ended."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from surefoot.runs.allocator import keep_freed_memory
from surefoot.runs.control import RunControl
from surefoot.runs.folder import RunFolder
from surefoot.runs.spec import RunSpec

_PATIENCE = 60.0  # seconds for a process that was given up to leave the run's folder


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
        return self.spec.num_threads * self.spec.processes

    @property
    def processes(self) -> int:
        """Processes that do it together, on one machine."""
        return self.spec.processes

    @property
    def gpus(self) -> int:
        """GPUs: none unless the spec names the device, because "auto" takes what there is."""
        return int(self.spec.device == "cuda")


@dataclass(frozen=True)
class Event:
    """An event of one run: started, progress, ended (with its status), or lost (its process died)."""

    kind: str
    spec: RunSpec
    done: int = 0  # gradients
    status: str = ""
    reason: str = ""
    notes: tuple[str, ...] = ()


class Engine(Protocol):
    """Does trials, several at a time."""

    def run(self, trials: Sequence[Trial], *, on_event: Callable[[Event], None]) -> dict[str, Event]:
        """Do every trial in its folder; returns how each ended, by run id.

        A trial whose process died is resumed, `retries` times; one that fails is reported and the others go on. On
        KeyboardInterrupt what runs is asked to save a checkpoint.
        """
        ...


def perform(trial: Trial, *, control: RunControl | None = None) -> Event:
    """Do one trial in this process, which does nothing else, and return how it ended; a failure is a status.

    Waits a minute for a folder that another process holds: on a cluster, one that was given up may still be leaving.
    """
    from surefoot.runs.run import run

    keep_freed_memory()
    folder = RunFolder(trial.folder)
    given_up = time.monotonic() + _PATIENCE
    while True:
        try:
            anew = trial.anew and folder.ended  # a second try resumes
            result = run(trial.spec, folder, control=control, rerun=anew)
            return Event("ended", trial.spec, status=result.status, reason=result.reason, notes=result.notes)
        except BrokenPipeError:
            raise  # who asked for progress is gone
        except Exception as error:
            if not isinstance(error, BlockingIOError) or time.monotonic() > given_up:
                return Event("ended", trial.spec, status="failed", reason=f"{type(error).__name__}: {error}")
        time.sleep(0.2)
