"""Do a run, or go on with it."""

import math
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from surefoot.files import locked
from surefoot.runs.build import build
from surefoot.runs.ended import Ended
from surefoot.runs.origin import code_digest, commit, hardware, made_alike, versions
from surefoot.runs.processes import launched
from surefoot.runs.selection import JUDGE, selected
from surefoot.runs.spec import RunSpec
from surefoot.runs.store import RunFolder
from surefoot.training import checkpoint
from surefoot.training.loop import Training, train
from surefoot.training.processes import Processes
from surefoot.training.snapshot import Diverged


def run(
    spec: RunSpec,
    folder: RunFolder,
    *,
    checkpoint_seconds: float = 20.0,
    rerun: bool = False,
    on_progress: Callable[[int, int], None] = lambda done, budget: None,
    should_stop: Callable[[], bool] = lambda: False,
    processes: Processes | None = None,
) -> Ended:
    """Train as `spec` says and leave the outcome in `folder`; resumes from its checkpoint if there is one.

    A run that ended is left alone, unless `rerun`. One that ended under other code or versions is left alone too, and
    the notes say so; one cut off under them starts again, because half of each would be neither. A failure of the
    run itself is a status, not an exception; errors of the spec (ValueError) and of the disk (OSError) are raised.

    Several processes are started where the spec asks for them, unless `processes` says that this is one of them, the
    first; the others `follow`.
    """
    if spec.processes > 1 and processes is None:
        ended = launched(
            spec,
            folder.path,
            checkpoint_seconds=checkpoint_seconds,
            rerun=rerun,
            on_progress=on_progress,
            should_stop=should_stop,
        )
        folder.forget()
        return ended
    group = processes or Processes()
    with locked(folder.path):
        folder.forget()
        damaged = folder.status == "damaged"
        if damaged:
            folder.set_aside()
        before = folder.record if folder.status != "absent" else None
        if before is not None and not rerun and folder.ended:
            told = () if made_alike(before) else (f"{spec.label} was made by {_other(before)}.",)
            group.told(False)
            return Ended(before["status"], before.get("reason", ""), told, reused=True)
        with _own_generators_and_threads(spec.num_threads):
            group.told(True)
            keeper = _Keeper(spec, folder, build(spec, processes=group), checkpoint_seconds, on_progress, should_stop)
            alike = before is not None and made_alike(before) and before.get("device") == keeper.device
            notes = keeper.resume_or_clear(resume=alike and not rerun)
            if before is not None and not alike and not rerun:
                notes += (f"{spec.label} was begun by {_other(before)} and starts again.",)
            if damaged:
                kept = "What was there is kept as *.damaged."
                notes += (f"The run.json of {spec.label} could not be read: it starts again. {kept}",)
            group.told({"spent": keeper.spent, "from": keeper.resumed})
            status, reason = keeper.train()
            return Ended(status, reason, notes)


def follow(spec: RunSpec, *, processes: Processes) -> None:
    """Take part in a run of several processes whose first one calls `run`; writes nothing."""
    if not processes.told(None):  # before anything is built: that takes all of them
        return
    with _own_generators_and_threads(spec.num_threads):
        training = build(spec, processes=processes)
        told = processes.told(None)
        if told["spent"]:
            return
        if told["from"] is not None:
            checkpoint.restore(training, checkpoint.read(told["from"]))
        with suppress(Diverged):  # the first one says so
            train(
                training,
                budget=spec.budget,
                schedule=spec.schedule,
                record=lambda row: None,
                between=lambda: processes.agreed(True),
            )


def _other(record: dict[str, Any]) -> str:
    if record.get("code") != code_digest():
        return f"other code ({record.get('code')})"
    return f"other versions or on another device ({record.get('versions')}, {record.get('device')})"


@dataclass(eq=False)
class _Keeper:
    """Keeps the folder in step with the training."""

    spec: RunSpec
    folder: RunFolder
    training: Training
    checkpoint_seconds: float
    on_progress: Callable[[int, int], None]
    should_stop: Callable[[], bool]

    begun: float = field(default_factory=lambda: time.monotonic(), init=False)
    spent: bool = field(default=False, init=False)  # the checkpoint is the one written at the very end
    resumed: Path | None = field(default=None, init=False)  # the checkpoint gone on from
    lowest: float = field(default=math.inf, init=False)  # validation NLL of the rows

    @property
    def device(self) -> str:
        return next(self.training.model.parameters()).device.type

    @property
    def times(self) -> Path:
        return self.folder.path / "times.jsonl"

    def resume_or_clear(self, *, resume: bool) -> tuple[str, ...]:
        """Go on from the last checkpoint that is whole, or make the folder a fresh run's.

        Safe to be killed in at any line.
        """
        notes: tuple[str, ...] = ()
        saved = [path for path in (self.folder.checkpoint, self.folder.previous) if resume and path.exists()]
        for path in saved:
            try:
                self._resume(path)
            except ValueError as error:
                notes += (str(error),)
                path.unlink()  # it must not be kept in place of one that is whole
                continue
            (self.folder.path / "error.txt").unlink(missing_ok=True)
            return (*notes, f"The checkpoint before it is used, of step {self.training.step}.") if notes else ()
        for path in (self.folder.checkpoint, self.folder.previous):
            path.unlink(missing_ok=True)  # before the record: it must never go with another one's rows
        self._write_record("running")  # before the rows go: what is not running any more has all of them
        for name in ("metrics.jsonl", "metrics.jsonl.gz", "times.jsonl", "error.txt", "selected.safetensors"):
            (self.folder.path / name).unlink(missing_ok=True)
        return (*notes[:-1], f"{notes[-1]} The run starts again.") if notes else ()

    def _resume(self, path: Path) -> None:
        state = checkpoint.read(path)
        extra = state["extra"]
        if not self.folder.cut(self.folder.metrics, extra["metrics_bytes"]):
            raise ValueError(f"{self.folder.metrics} is shorter than its checkpoint says.")
        self.folder.cut(self.times, extra["times_bytes"])
        checkpoint.restore(self.training, state)
        self.begun -= extra["seconds"]
        self.training.seconds_observing = extra["observing"]
        self.spent = extra["spent"]
        self.lowest = self._lowest()  # of the rows left: later ones come again, with the same bits
        self.resumed = path

    def train(self) -> tuple[str, str]:
        self._write_record("running")
        self.saved = self.told = time.monotonic()
        try:
            finished = self.spent or train(
                self.training,
                budget=self.spec.budget,
                schedule=self.spec.schedule,
                record=self._record_row,
                between=self._between,
            )
            status, reason = ("done", "") if finished else ("interrupted", "stopped on request")
        except Diverged as diverged:
            status, reason = "diverged", str(diverged)
        except (OSError, KeyboardInterrupt):
            raise
        except Exception as error:
            (self.folder.path / "error.txt").write_text(traceback.format_exc(), encoding="utf-8")
            status, reason = "failed", f"{type(error).__name__}: {error}"
        self.spent = status == "done"
        if status in ("done", "interrupted"):
            self._save()
        self.folder.sync()
        self._write_record(status, reason)
        if status == "done":
            self.folder.previous.unlink(missing_ok=True)
        return status, reason

    def _record_row(self, row: dict[str, float]) -> None:
        self.folder.append(row)
        seconds = round(time.monotonic() - self.begun, 4)
        observing = round(self.training.seconds_observing, 4)
        self.folder.append_line(self.times, {"step": row["step"], "seconds": seconds, "observing": observing})
        if self.spec.select != "last" and row[JUDGE] < self.lowest:
            self.lowest = row[JUDGE]
            checkpoint.save(self.folder.selected, self.training)

    def _lowest(self) -> float:
        found = selected(self.folder.rows()[0])
        return math.inf if found is None else found[JUDGE] or 0.0

    def _between(self) -> bool:
        now = time.monotonic()
        if now - self.told > 0.2:
            self.told = now
            self.on_progress(self.training.num_gradients, self.spec.budget)
        if now - self.saved > self.checkpoint_seconds:
            self._save()
        return self.training.processes.agreed(not self.should_stop())

    def _save(self) -> None:
        length = self.folder.sync()  # rows first: a checkpoint never refers to rows that are not on disk
        if self.folder.checkpoint.exists():
            self.folder.checkpoint.replace(self.folder.previous)
        checkpoint.save(
            self.folder.checkpoint,
            self.training,
            metrics_bytes=length,
            times_bytes=self.times.stat().st_size if self.times.exists() else 0,
            seconds=time.monotonic() - self.begun,
            observing=self.training.seconds_observing,
            spent=self.spent,
        )
        self.saved = time.monotonic()

    def _write_record(self, status: str, reason: str = "") -> None:
        record: dict[str, Any] = {
            "id": self.spec.id,
            "label": self.spec.label,
            "status": status,
            "reason": reason,
            "seed": self.spec.seed,
            "step": self.training.step,
            "gradients": self.training.num_gradients,
            "seconds": round(time.monotonic() - self.begun, 3),
            "seconds_observing": round(self.training.seconds_observing, 3),
            "device": self.device,
            "code": code_digest(),
            "commit": commit(),
            "versions": versions(),
            "hardware": hardware(),
            "spec": self.spec.to_dict(),
        }
        if self.spec.select != "last" and status == "done":
            record["selected"] = selected(self.folder.rows()[0])
        self.folder.write_record(record)


@contextmanager
def _own_generators_and_threads(num_threads: int) -> Iterator[None]:
    threads = torch.get_num_threads()
    cuda = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=cuda):
        try:
            torch.set_num_threads(num_threads)
            yield
        finally:
            torch.set_num_threads(threads)
