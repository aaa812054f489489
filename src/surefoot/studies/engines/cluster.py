"""The engine for clusters: hands trials to a backend, polls them, and hands the lost ones out again."""

import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from surefoot.runs.control import RunControl
from surefoot.studies.engines.engine import Event, Trial, perform

_POLL = 0.2  # seconds between two polls of the trials
_STOP = "stop"  # a file in a run's folder: the process that does the run saves and leaves
_LEAVE = 30.0  # seconds that it has for that
_PROGRESS = 5.0  # seconds between two readings of the rows of what runs: a shared file system may be slow


class Lost(Exception):
    """The process that did a trial died; the message says how."""


class Backend(Protocol):
    """A place that does trials: Ray, Slurm."""

    def has_room(self, trial: Trial, active: Sequence[Trial]) -> bool:
        """Whether to hand out another trial beside those."""
        ...

    def submit(self, trial: Trial) -> Any:
        """Hand out a trial, to be done by `perform_until_stopped`; returns a handle to ask by."""
        ...

    def ended(self, handle: Any) -> Event | None:
        """How a trial ended, None while it has not; raises Lost."""
        ...

    def cancel(self, handle: Any) -> None:
        """Take a trial back, by force."""
        ...

    def close(self) -> None:
        """Release what the backend started."""
        ...


@dataclass
class ClusterEngine:
    """Does trials on a backend. All machines must see the study's folder under the same path."""

    backend: Backend

    def run(self, trials: Sequence[Trial], *, on_event: Callable[[Event], None]) -> dict[str, Event]:
        """Do every trial in its folder; returns how each ended, by run id."""
        waiting = deque(trials)
        tries = {trial.id: 0 for trial in waiting}
        active: dict[str, tuple[Trial, Any]] = {}
        ended: dict[str, Event] = {}
        polled = time.monotonic()
        try:
            while waiting or active:
                while waiting and self.backend.has_room(waiting[0], [trial for trial, _ in active.values()]):
                    trial = waiting.popleft()
                    tries[trial.id] += 1
                    (trial.folder / _STOP).unlink(missing_ok=True)  # of an engine that was killed
                    active[trial.id] = (trial, self.backend.submit(trial))
                    on_event(Event("started", trial.spec))
                for trial, handle in list(active.values()):
                    event = self._outcome(trial, handle, last=tries[trial.id] > trial.retries)
                    if event is not None:
                        del active[trial.id]
                        on_event(event)
                        if event.kind == "lost":
                            waiting.append(trial)
                        else:
                            ended[trial.id] = event
                if time.monotonic() - polled >= _PROGRESS:
                    polled = time.monotonic()
                    for trial, _ in active.values():
                        on_event(Event("progress", trial.spec, recorded_gradients(trial.folder / "metrics.jsonl")))
                time.sleep(_POLL)
        finally:
            self._take_back(list(active.values()))
            self.backend.close()
        return ended

    def _outcome(self, trial: Trial, handle: Any, *, last: bool) -> Event | None:
        try:
            event = self.backend.ended(handle)
            if event is None or event.status != "interrupted":
                return event
            why = "somebody stopped it"
        except Lost as lost:
            why = str(lost)
        return (
            Event("ended", trial.spec, status="failed", reason=why) if last else Event("lost", trial.spec, reason=why)
        )

    def _take_back(self, active: Sequence[tuple[Trial, Any]]) -> None:
        for trial, _ in active:
            with suppress(OSError):
                trial.folder.mkdir(parents=True, exist_ok=True)
                (trial.folder / _STOP).touch()
        left = list(active)
        given_up = time.monotonic() + _LEAVE
        while left and time.monotonic() < given_up:
            time.sleep(_POLL)
            left = [(trial, handle) for trial, handle in left if not self._has_left(handle)]
        for trial, handle in active:
            self.backend.cancel(handle)
            (trial.folder / _STOP).unlink(missing_ok=True)

    def _has_left(self, handle: Any) -> bool:
        try:
            return self.backend.ended(handle) is not None
        except Lost:
            return True


def recorded_gradients(path: Path) -> int:
    """How far a run has come by its last whole row; 0 where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 2**16))
            lines = file.read().split(b"\n")[:-1]
        return int(json.loads(lines[-1])["gradients"])
    except (OSError, IndexError, ValueError, KeyError, TypeError):
        return 0


def perform_until_stopped(trial: Trial) -> Event:
    """Do one trial in this process, which saves and leaves when somebody puts a file named stop into its folder."""
    return perform(trial, control=RunControl(should_stop=_StopFile(trial.folder / _STOP)))


@dataclass
class _StopFile:
    path: Path
    checked: float = 0.0

    def __call__(self) -> bool:
        now = time.monotonic()
        if now - self.checked < 1.0:  # asking a shared file system may be slow
            return False
        self.checked = now
        return self.path.exists()
