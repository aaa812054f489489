"""Do a study: run what is missing, leave the rest."""

import errno
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from surefoot._version import __version__
from surefoot.files import write_atomically
from surefoot.runs.folder import RunFolder
from surefoot.runs.provenance import same_provenance
from surefoot.runs.stored import DamagedError
from surefoot.studies.analysis import load_analysis
from surefoot.studies.archive import is_archive
from surefoot.studies.engines.engine import Engine, Event, Trial
from surefoot.studies.folder import StudyFolder
from surefoot.studies.study import Study

Rerun = Literal["none", "stale", "all"]


def missing(study: Study, root: Path, *, rerun: Rerun = "none") -> list[Trial]:
    """What is to do of a study in its folder: the runs that have not ended, and those asked for again.

    Writes nothing. Whether they can run here, `runs.preflight` checks.
    """
    there = next(path for path in (root.absolute(), *root.absolute().parents) if path.exists())
    if not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(there))
    if (root / "study.json").exists():
        with suppress(DamagedError):  # it follows from the study's file and is written anew; the runs have their own
            record = StudyFolder(root).record
            if (record["study"], record["scale"]) != (study.name, study.scale):
                other = f"the study {record['study']} at scale {record['scale']}"
                raise ValueError(f"{root} holds {other}: choose another folder.")
    if is_archive(root):
        raise ValueError(f"{root} is an archive, whose runs cannot be done in place: reuse it from another folder.")
    analysis = load_analysis(study.analysis, folder=Path(study.file).parent if study.file else None)
    for spec in study.specs:
        analysis.check(spec)
    todo = []
    for spec in study.specs:
        folder = RunFolder(root.absolute() / "runs" / spec.id)  # workers may live in another folder
        ended = folder.ended
        stale = ended and not same_provenance(folder.record)
        if not ended or rerun == "all" or (rerun == "stale" and stale):
            todo.append(Trial(spec, folder.path, anew=ended))
    return todo


def run_study(
    study: Study, root: Path, trials: Sequence[Trial], *, engine: Engine, on_event: Callable[[Event], None]
) -> dict[str, Event]:
    """Do those trials of a study and return how each ended.

    Only by the one process that holds the study's folder (`files.locked`). A run that ended since `missing` was asked
    is left as it is.
    """
    (root / "runs").mkdir(parents=True, exist_ok=True)
    write_atomically(root / "study.json", (json.dumps(_record(study), indent=1) + "\n").encode())
    return engine.run(trials, on_event=on_event) if trials else {}


def _record(study: Study) -> dict[str, Any]:
    return {
        "study": study.name,
        "scale": study.scale,
        **({"file": study.file} if study.file else {}),
        "title": study.title,
        "about": study.about,
        "axes": study.axes,
        "claims": {rule.family: rule.to_dict() for rule in study.rules},
        "analysis": study.analysis,
        "versions": {"surefoot": __version__},
        "runs": {spec.id: spec.label for spec in study.specs},
    }
