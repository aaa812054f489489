"""Do a run, or go on with it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch

from surefoot.files import locked
from surefoot.runs._recorder import Keeper
from surefoot.runs._torchrun import launched
from surefoot.runs.build import build
from surefoot.runs.folder import RunFolder
from surefoot.runs.provenance import code_digest, made_alike
from surefoot.runs.result import Ended
from surefoot.runs.spec import RunSpec
from surefoot.training import checkpoint
from surefoot.training.loop import train
from surefoot.training.process_group import Processes
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
        damaged = folder.damaged
        if damaged:
            folder.set_aside()
        before = folder.record if folder.status != "absent" else None
        if before is not None and not rerun and folder.ended:
            told = () if made_alike(before) else (f"{spec.label} was made by {_other(before)}.",)
            group.told(False)
            return Ended(before["status"], before.get("reason", ""), told, reused=True)
        with _own_generators_and_threads(spec.num_threads):
            group.told(True)
            keeper = Keeper(spec, folder, build(spec, processes=group), checkpoint_seconds, on_progress, should_stop)
            alike = before is not None and made_alike(before) and before.get("device") == keeper.device
            notes = keeper.resume_or_clear(resume=alike and not rerun)
            if before is not None and not alike and not rerun:
                notes += (f"{spec.label} was begun by {_other(before)} and starts again.",)
            if damaged:
                kept = "What was there is kept as *.damaged."
                notes += (f"The record or the rows of {spec.label} were damaged: it starts again. {kept}",)
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
