"""Do a run, or go on with it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch

from surefoot.files import locked
from surefoot.runs._recorder import RunRecorder
from surefoot.runs._torchrun import run_under_torchrun
from surefoot.runs.build import build
from surefoot.runs.control import RunControl
from surefoot.runs.folder import RunFolder
from surefoot.runs.provenance import code_digest, same_provenance
from surefoot.runs.result import RunResult
from surefoot.runs.spec import RunSpec
from surefoot.training import checkpoint
from surefoot.training.loop import train
from surefoot.training.process_group import ProcessGroup
from surefoot.training.snapshot import Diverged


def run(
    spec: RunSpec,
    folder: RunFolder,
    *,
    control: RunControl | None = None,
    rerun: bool = False,
    process_group: ProcessGroup | None = None,
) -> RunResult:
    """Train as `spec` says and leave the outcome in `folder`; resumes from its checkpoint if there is one.

    A run that ended is left alone, unless `rerun`. One that ended under other code or versions is left alone too, and
    the notes say so; one cut off under them starts again, because half of each would be neither. A failure of the
    run itself is a status, not an exception; errors of the spec (ValueError) and of the disk (OSError) are raised.

    Args:
        spec: What to train. Where it asks for several processes, `run` starts them under torchrun.
        folder: Where record, rows and checkpoints go.
        control: Seconds between checkpoints, and callbacks; the defaults of `RunControl` if not given.
        rerun: Do a run again that ended before.
        process_group: The processes that train together, of which this one is the first; the others call `follow`.

    Returns:
        The status, its reason, and notes for the reader.
    """
    control = control or RunControl()
    if spec.processes > 1 and process_group is None:
        result = run_under_torchrun(spec, folder.path, control=control, rerun=rerun)
        folder.forget()
        return result
    group = process_group or ProcessGroup()
    with locked(folder.path):
        folder.forget()
        damaged = folder.damaged
        if damaged:
            folder.set_aside()
        before = folder.record if folder.status != "absent" else None
        if before is not None and not rerun and folder.ended:
            stale = () if same_provenance(before) else (f"{spec.label} was made by {_other(before)}.",)
            group.broadcast(False)
            return RunResult(before["status"], before.get("reason", ""), stale, reused=True)
        with _own_generators_and_threads(spec.num_threads):
            group.broadcast(True)
            recorder = RunRecorder(spec, folder, build(spec, process_group=group), control)
            notes = _resume_or_clear(recorder, before, rerun=rerun, damaged=damaged)
            group.broadcast({"spent": recorder.spent, "from": recorder.resumed})
            status, reason = recorder.train()
            return RunResult(status, reason, notes)


def follow(spec: RunSpec, *, process_group: ProcessGroup) -> None:
    """Take part in a run of several processes whose first one calls `run`; writes nothing."""
    if not process_group.broadcast(None):  # before anything is built: that takes all of them
        return
    with _own_generators_and_threads(spec.num_threads):
        training = build(spec, process_group=process_group)
        start = process_group.broadcast(None)
        if start["spent"]:
            return
        if start["from"] is not None:
            checkpoint.restore(training, checkpoint.read(start["from"]))
        with suppress(Diverged):  # the first process reports it
            train(
                training,
                budget=spec.budget,
                schedule=spec.schedule,
                record=lambda row: None,
                between=lambda: process_group.agreed(True),
            )


def _resume_or_clear(
    recorder: RunRecorder, before: dict[str, Any] | None, *, rerun: bool, damaged: bool
) -> tuple[str, ...]:
    """Go on from a checkpoint of the same code, versions and device, or start again; notes that say which and why."""
    label = recorder.spec.label
    same = before is not None and same_provenance(before) and before.get("device") == recorder.device
    notes = recorder.resume_or_clear(resume=same and not rerun)
    if before is not None and not same and not rerun:
        notes += (f"{label} was begun by {_other(before)} and starts again.",)
    if damaged:
        kept = "What was there is kept as *.damaged."
        notes += (f"The record or the rows of {label} were damaged: it starts again. {kept}",)
    return notes


def _other(record: dict[str, Any]) -> str:
    if record.get("code") != code_digest():
        return f"other code ({record.get('code')})"
    return f"other versions or on another device ({record.get('versions')}, {record.get('device')})"


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
