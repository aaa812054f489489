"""Do a study: run what is missing, leave the rest."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from surefoot.files import write_atomically
from surefoot.registry import look_up
from surefoot.runs.origin import made_alike
from surefoot.runs.spec import RunSpec
from surefoot.runs.store import RunFolder
from surefoot.studies.local import Event, LocalEngine
from surefoot.studies.outcome import OUTCOMES, study_record
from surefoot.studies.study import Study

Rerun = Literal["none", "stale", "all"]


def prepare(study: Study, root: Path, *, rerun: Rerun = "none") -> list[RunSpec]:
    """Make the study's folder and return the runs to do: those not ended, or asked for again.

    Everything that can be wrong with them is found here, before the first one starts.
    """
    if (root / "study.json").exists():
        held = study_record(root)
        if (held["study"], held["scale"]) != (study.name, study.scale):
            raise ValueError(f"{root} holds the study {held['study']} at scale {held['scale']}; name another `--out`.")
    analysis = look_up("outcome", study.outcome, OUTCOMES)
    for spec in study.specs:
        analysis.check(spec)
    todo = []
    for spec in study.specs:
        folder = RunFolder(root / "runs" / spec.id)
        ended = folder.ended
        stale = ended and not made_alike(folder.record)
        if not ended or rerun == "all" or (rerun == "stale" and stale):
            todo.append(spec)
    if todo:
        preflight(todo)
    (root / "runs").mkdir(parents=True, exist_ok=True)
    write_atomically(root / "study.json", (json.dumps(_record(study), indent=1) + "\n").encode())
    return todo


def preflight(specs: Sequence[RunSpec]) -> None:
    """Raise ValueError or OSError if a spec cannot run here: names, types, values, device, data.

    Loads each data set once and builds every object of every spec, leaving the global generators alone.
    """
    import torch

    from surefoot.data import DATASETS
    from surefoot.runs.build import build, check

    for spec in specs:
        check(spec)
    parts = {repr(spec.data): spec.data for spec in specs}
    loaded = {key: DATASETS[data.name](**data.options) for key, data in parts.items()}
    with torch.random.fork_rng():
        for spec in specs:
            build(spec, data=loaded[repr(spec.data)])


def conduct(
    todo: Sequence[RunSpec], root: Path, *, engine: LocalEngine, tell: Callable[[Event], None]
) -> dict[str, Event]:
    """Do the runs that `prepare` returned; an ended one among them is done again. Returns how each ended."""
    again = {spec.id for spec in todo if RunFolder(root / "runs" / spec.id).ended}
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
