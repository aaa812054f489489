"""Do a run, or go on with it."""

import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from surefoot.runs.build import build
from surefoot.runs.origin import code_digest, commit, hardware, versions
from surefoot.runs.spec import RunSpec
from surefoot.runs.store import FINISHED, RunFolder
from surefoot.training import checkpoint
from surefoot.training.loop import Training, train
from surefoot.training.snapshot import Diverged


@dataclass(frozen=True)
class Ended:
    """How a call of `run` ended: the run's status, why, and what a reader should know."""

    status: str  # done, diverged, interrupted, failed
    reason: str = ""
    notes: tuple[str, ...] = ()
    reused: bool = False  # nothing was computed: the run had ended before


def run(
    spec: RunSpec,
    folder: RunFolder,
    *,
    checkpoint_seconds: float = 20.0,
    rerun: bool = False,
    on_progress: Callable[[int, int], None] = lambda done, budget: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Ended:
    """Train as `spec` says and leave the outcome in `folder`; resumes from its checkpoint if there is one.

    A run that ended is left alone, unless `rerun`. One that ended under other code is left alone too, and the notes
    say so; one that was cut off under other code starts again, because half of each would be neither. A failure of the
    run itself is a status, not an exception; errors of the spec (ValueError) and of the disk (OSError) are raised.
    """
    with folder.locked():
        before = folder.record if folder.status != "absent" else None
        same_code = before is not None and before.get("code") == code_digest()
        if before is not None and not rerun and before["status"] in FINISHED:
            told = () if same_code else (f"{spec.label} was made by other code ({before.get('code')}).",)
            return Ended(before["status"], before.get("reason", ""), told, reused=True)
        with _own_generators_and_threads(spec.num_threads):
            training = build(spec)
            notes = _resume_or_clear(folder, training, resume=same_code and not rerun)
            if before is not None and not same_code:
                notes += (f"{spec.label} was begun by other code ({before.get('code')}) and starts again.",)
            keeper = _Keeper(spec, folder, training, checkpoint_seconds, on_progress, should_stop)
            status, reason = keeper.train()
            return Ended(status, reason, notes)


@dataclass(eq=False)
class _Keeper:
    """Keeps the folder in step with the training."""

    spec: RunSpec
    folder: RunFolder
    training: Training
    checkpoint_seconds: float
    on_progress: Callable[[int, int], None]
    should_stop: Callable[[], bool]

    def train(self) -> tuple[str, str]:
        self._write_record("running")
        self.begun = self.saved = self.told = time.monotonic()
        try:
            finished = train(
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
        if status in ("done", "interrupted"):
            self._save()
        self.folder.sync()
        self._write_record(status, reason)
        return status, reason

    def _record_row(self, row: dict[str, float]) -> None:
        self.folder.append(row)
        elapsed = time.monotonic() - self.begun
        self.folder.append_line(self.folder.path / "times.jsonl", {"step": row["step"], "seconds": round(elapsed, 4)})

    def _between(self) -> bool:
        now = time.monotonic()
        if now - self.told > 0.2:
            self.told = now
            self.on_progress(self.training.num_gradients, self.spec.budget)
        if now - self.saved > self.checkpoint_seconds:
            self._save()
        return not self.should_stop()

    def _save(self) -> None:
        length = self.folder.sync()  # rows first: a checkpoint never refers to rows that are not on disk
        checkpoint.save(self.folder.checkpoint, self.training, metrics_bytes=length)
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
            "device": str(next(self.training.model.parameters()).device),
            "code": code_digest(),
            "commit": commit(),
            "versions": versions(),
            "hardware": hardware(),
            "spec": self.spec.to_dict(),
        }
        self.folder.write_record(record)


def _resume_or_clear(folder: RunFolder, training: Training, *, resume: bool) -> tuple[str, ...]:
    notes: tuple[str, ...] = ()
    if resume and folder.checkpoint.exists():
        try:
            state = checkpoint.read(folder.checkpoint)
            if folder.cut(state["extra"]["metrics_bytes"]):
                checkpoint.restore(training, state)
                return ()
            notes = (f"{folder.metrics} is shorter than its checkpoint says: the run starts again.",)
        except ValueError as error:
            notes = (f"{error} The run starts again.",)
    for name in ("metrics.jsonl", "times.jsonl", "checkpoint.safetensors", "error.txt"):
        (folder.path / name).unlink(missing_ok=True)
    return notes


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
