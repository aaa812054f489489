"""The local engine: a few worker processes that stay alive, one run each at a time."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType

from surefoot.runs.control import RunControl
from surefoot.studies.engines.engine import Event, Trial, perform


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    trial: Trial | None = None


@dataclass
class LocalEngine:
    """Does trials on this machine, `num_workers` at a time; each worker loads torch once.

    A worker that dies is replaced and its run resumed; a run that fails is reported and the others go on. On
    KeyboardInterrupt the workers save a checkpoint and leave.
    """

    num_workers: int
    checkpoint_seconds: float = 20.0
    _workers: list[_Worker] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        if self.num_workers < 1:
            raise ValueError(f"`workers` must be at least 1, got {self.num_workers}.")

    def run(self, trials: Sequence[Trial], *, on_event: Callable[[Event], None]) -> dict[str, Event]:
        """Do every trial in its folder; returns how each ended, by run id."""
        waiting = deque(trials)
        tries = {trial.id: 0 for trial in waiting}
        ended: dict[str, Event] = {}
        try:
            for _ in range(min(self.num_workers, len(waiting))):
                self._workers.append(_start_worker(self.checkpoint_seconds))
            while len(ended) < len(tries):
                for worker in self._workers:
                    if worker.trial is None and waiting:
                        worker.trial = trial = waiting.popleft()
                        tries[trial.id] += 1
                        on_event(Event("started", trial.spec))
                        _send(worker.connection, trial)
                for worker in self._ready():
                    doing, event = worker.trial, _received(worker)
                    if doing is None:
                        continue
                    if event is None or event.status == "interrupted":  # the worker is gone, or was asked to leave
                        worker.process.join(timeout=5)
                        reason = f"its worker died ({_death(worker.process)})"
                        if tries[doing.id] <= doing.retries:
                            event = Event("lost", doing.spec, reason=reason)
                            waiting.append(doing)
                            worker.trial = None
                        else:
                            event = Event("ended", doing.spec, status="failed", reason=reason)
                    on_event(event)
                    if event.kind == "ended":
                        ended[doing.id] = event
                        worker.trial = None
                self._replace_dead()
        finally:
            self._stop()
        return ended

    def _ready(self) -> list[_Worker]:
        ready = wait([worker.connection for worker in self._workers] + [w.process.sentinel for w in self._workers])
        return [w for w in self._workers if w.connection in ready or w.process.sentinel in ready]

    def _replace_dead(self) -> None:
        for k, worker in enumerate(self._workers):
            if worker.trial is None and not worker.process.is_alive():
                worker.connection.close()
                self._workers[k] = _start_worker(self.checkpoint_seconds)

    def _stop(self) -> None:
        for worker in self._workers:
            worker.process.terminate()  # SIGTERM: the worker saves at the end of its step
        for worker in self._workers:
            worker.process.join(timeout=30)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.connection.close()
        self._workers.clear()


def _start_worker(checkpoint_seconds: float) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, checkpoint_seconds), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _send(connection: Connection, message: object) -> None:
    with suppress(OSError):  # the worker died; its sentinel will say so
        connection.send(message)


def _received(worker: _Worker) -> Event | None:
    try:
        if worker.connection.poll():
            event: Event = worker.connection.recv()
            return event
    except (EOFError, OSError):
        pass
    return None


def _death(process: BaseProcess) -> str:
    code = process.exitcode
    return f"killed by signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def _die_with_parent() -> None:
    """Leave at once when the parent is gone, even in the middle of a step: the next one wants the run's lock."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGKILL)  # as safe at any moment as the parent's own death


def _work(connection: Connection, checkpoint_seconds: float) -> None:
    """The life of a worker: take a trial, do it, report; until the pipe closes or SIGTERM asks to leave."""
    idle, leaving = True, False

    def leave(number: int, frame: FrameType | None) -> None:
        nonlocal leaving
        first, leaving = not leaving, True
        if idle and first:
            raise SystemExit

    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the parent decides
    signal.signal(signal.SIGTERM, leave)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    threading.Thread(target=_die_with_parent, daemon=True).start()

    while not leaving:
        try:
            trial = connection.recv()
        except EOFError:
            return
        idle = False
        try:
            control = RunControl(
                checkpoint_seconds=checkpoint_seconds,
                on_progress=lambda done, _, spec=trial.spec: connection.send(Event("progress", spec, done)),  # type: ignore[misc]
                should_stop=lambda: leaving,
            )
            event = perform(trial, control=control)
            idle = True
            connection.send(event)
        except BrokenPipeError:
            return  # the parent is gone
