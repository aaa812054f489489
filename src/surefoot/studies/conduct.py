"""Do a study: run what is missing, leave the rest."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from surefoot.files import write_atomically
from surefoot.runs.origin import code_digest
from surefoot.runs.spec import RunSpec
from surefoot.runs.store import FINISHED, RunFolder
from surefoot.studies.local import Event, LocalEngine
from surefoot.studies.study import Study

Rerun = Literal["none", "stale", "all"]


def prepare(study: Study, root: Path, *, rerun: Rerun = "none") -> list[RunSpec]:
    """Make the study's folder and return the runs to do: those not ended, or asked for again.

    Everything that can be wrong with them is found here, before the first one starts.
    """
    (root / "runs").mkdir(parents=True, exist_ok=True)
    write_atomically(root / "study.json", (json.dumps(_record(study), indent=1) + "\n").encode())
    todo = []
    for spec in study.specs:
        folder = RunFolder(root / "runs" / spec.id)
        ended = folder.status in FINISHED
        stale = ended and folder.record.get("code") != code_digest()
        if not ended or rerun == "all" or (rerun == "stale" and stale):
            todo.append(spec)
    if todo:
        preflight(todo)
    return todo


def preflight(specs: Sequence[RunSpec]) -> None:
    """Raise ValueError or OSError if a spec cannot run here: names, types, device, data."""
    from surefoot.data import DATASETS
    from surefoot.runs.build import check, resolve_device

    for spec in specs:
        check(spec)
    for device in {spec.device for spec in specs}:
        resolve_device(device)
    for data in {repr(spec.data): spec.data for spec in specs}.values():
        DATASETS[data.name](**data.options)


def conduct(
    todo: Sequence[RunSpec], root: Path, *, engine: LocalEngine, tell: Callable[[Event], None]
) -> dict[str, Event]:
    """Do the runs that `prepare` returned; an ended one among them is done again. Returns how each ended."""
    again = {spec.id for spec in todo if RunFolder(root / "runs" / spec.id).status in FINISHED}
    return engine.run(todo, root / "runs", again=again, tell=tell) if todo else {}


def _record(study: Study) -> dict[str, Any]:
    return {
        "study": study.name,
        "scale": study.scale,
        "title": study.title,
        "about": study.about,
        "outcome": study.outcome,
        "runs": {spec.id: spec.label for spec in study.specs},
    }
