"""Runs that another study has made already: the same spec is the same run."""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from surefoot.runs.folder import RunFolder
from surefoot.studies.engines.engine import Trial
from surefoot.studies.outcome import study_record


def made_elsewhere(trials: Iterable[Trial], folders: Sequence[Path]) -> dict[str, RunFolder]:
    """The runs, by id, of those trials that nobody has begun here and that have ended in one of these studies."""
    for folder in folders:
        study_record(folder)  # says what is wrong with it
    found: dict[str, RunFolder] = {}
    for trial in trials:
        places = (RunFolder(folder / "runs" / trial.id) for folder in folders)
        ended = next((place for place in places if place.ended), None)
        if ended is not None and RunFolder(trial.folder).status in ("absent", "damaged"):
            found[trial.id] = ended
    return found


def take(trials: Iterable[Trial], made: Mapping[str, RunFolder]) -> None:
    """Copy what was made elsewhere to where it belongs, each run whole or not at all.

    Only by the one process that holds the study's folder.
    """
    for trial in trials:
        if trial.id in made:
            half = trial.folder.with_name(f".{trial.id}.part")
            shutil.rmtree(half, ignore_errors=True)
            shutil.rmtree(trial.folder, ignore_errors=True)  # a lock, or what is damaged
            try:
                shutil.copytree(made[trial.id].path, half, ignore=shutil.ignore_patterns("lock"))
                os.replace(half, trial.folder)
            finally:
                shutil.rmtree(half, ignore_errors=True)
