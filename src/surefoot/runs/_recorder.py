"""The recorder of a run: rows, checkpoints and run.json."""

import math
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surefoot.runs.control import RunControl
from surefoot.runs.folder import RunFolder
from surefoot.runs.provenance import code_digest, commit, hardware, versions
from surefoot.runs.selection import JUDGE, selected
from surefoot.runs.spec import RunSpec
from surefoot.training import checkpoint
from surefoot.training.loop import Training, train
from surefoot.training.snapshot import Diverged


@dataclass(eq=False)
class RunRecorder:
    """Writes rows, checkpoints and the record of a run to its folder while it trains."""

    spec: RunSpec
    folder: RunFolder
    training: Training
    control: RunControl

    begun: float = field(default_factory=lambda: time.monotonic(), init=False)
    spent: bool = field(default=False, init=False)  # the checkpoint is the one written at the very end
    resumed: Path | None = field(default=None, init=False)  # the checkpoint gone on from
    lowest: float = field(default=math.inf, init=False)  # validation NLL of the rows
    saved: float = field(default=0.0, init=False)  # when the last checkpoint was written
    reported: float = field(default=0.0, init=False)  # when progress was last reported

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
        if self.folder.checksum() != extra["metrics_sha256"]:
            raise ValueError(f"{self.folder.metrics} holds other rows than its checkpoint says.")
        self.folder.cut(self.times, extra["times_bytes"])
        checkpoint.restore(self.training, state)
        self.begun -= extra["seconds"]
        self.training.seconds_observing = extra["observing"]
        self.spent = extra["spent"]
        self.lowest = self._lowest()  # of the rows left: later ones come again, with the same bits
        self.resumed = path

    def train(self) -> tuple[str, str]:
        self._write_record("running")
        self.saved = self.reported = time.monotonic()
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
        best = selected(self.folder.rows()[0])
        lowest = None if best is None else best[JUDGE]
        return math.inf if lowest is None else lowest

    def _between(self) -> bool:
        now = time.monotonic()
        if now - self.reported > 0.2:
            self.reported = now
            self.control.on_progress(self.training.num_gradients, self.spec.budget)
        if now - self.saved > self.control.checkpoint_seconds:
            self._save()
        return self.training.process_group.agreed(not self.control.should_stop())

    def _save(self) -> None:
        length = self.folder.sync()  # rows first: a checkpoint never refers to rows that are not on disk
        if self.folder.checkpoint.exists():
            self.folder.checkpoint.replace(self.folder.previous)
        checkpoint.save(
            self.folder.checkpoint,
            self.training,
            metrics_bytes=length,
            metrics_sha256=self.folder.checksum(length),
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
        if status == "done":
            record["metrics_sha256"] = self.folder.checksum()
        if self.spec.select != "last" and status == "done":
            record["selected"] = selected(self.folder.rows()[0])
        self.folder.write_record(record)
