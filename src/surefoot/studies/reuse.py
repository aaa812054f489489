"""Runs that another study has made already: the same spec is the same run."""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from surefoot.files import write_atomically
from surefoot.runs.folder import RunFolder
from surefoot.runs.stored import StoredRun
from surefoot.studies.archive import is_archive
from surefoot.studies.engines.engine import Trial
from surefoot.studies.folder import StudyFolder


def made_elsewhere(trials: Iterable[Trial], folders: Sequence[Path]) -> dict[str, StoredRun]:
    """The runs, by id, of those trials that nobody has begun here and that have ended in one of these studies."""
    archived = {folder: {run.name: run for run in StudyFolder(folder).runs} for folder in folders if is_archive(folder)}
    for folder in folders:
        _ = StudyFolder(folder).record  # raises where the folder is not a study's
    made: dict[str, StoredRun] = {}
    for trial in trials:
        places = (archived.get(folder, {}).get(trial.id, RunFolder(folder / "runs" / trial.id)) for folder in folders)
        ended = next((run for run in places if run.ended), None)
        if ended is not None and RunFolder(trial.folder).status in ("absent", "damaged"):
            made[trial.id] = ended
    return made


def take(trials: Iterable[Trial], made: Mapping[str, StoredRun]) -> None:
    """Copy what was made elsewhere to where it belongs, each run whole or not at all.

    Only by the one process that holds the study's folder.
    """
    for trial in trials:
        if trial.id in made:
            half = trial.folder.with_name(f".{trial.id}.part")
            shutil.rmtree(half, ignore_errors=True)
            shutil.rmtree(trial.folder, ignore_errors=True)  # a lock, or what is damaged
            try:
                _copy(made[trial.id], half)
                os.replace(half, trial.folder)
            finally:
                shutil.rmtree(half, ignore_errors=True)


def _copy(run: StoredRun, target: Path) -> None:
    if isinstance(run, RunFolder):
        shutil.copytree(run.path, target, ignore=shutil.ignore_patterns("lock"))
        return
    target.mkdir(parents=True)
    copy = RunFolder(target)
    write_atomically(copy.metrics, run.content()[0])
    copy.write_record(run.record)
