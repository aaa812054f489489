"""What a study's folder says: which runs ended how, made by what, and what the analysis finds."""

import json
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from surefoot.runs.folder import RunFolder, newer, read_record
from surefoot.studies.analysis import Analysis, load_analysis
from surefoot.studies.correlation import Trajectory
from surefoot.studies.criteria import Criterion, criteria_table
from surefoot.studies.plan import told
from surefoot.studies.study import read_study, told_axes

_AGAIN = "the study's command does it again"
_DAMAGED = {"status": "damaged", "reason": f"its rows are not those that it ended with; {_AGAIN}"}
_CERTIFIED = [
    f"{split}/{key}"
    for split in ("train", "test")
    for key in ("ggn_certified", "ggn_converged")  # the latter in runs of earlier versions
]


def study_record(root: Path) -> dict[str, Any]:
    """The content of study.json; ValueError where the folder is not a study's."""
    keys = {"study": str, "scale": str, "title": str, "about": str, "runs": dict}
    return read_record(root / "study.json", keys, kind="study")


def study_runs(root: Path) -> list[RunFolder]:
    """The folders of a study's runs, those that exist, in the study's order."""
    folders = [RunFolder(root / "runs" / run) for run in study_record(root)["runs"]]
    return [folder for folder in folders if folder.status != "absent"]


def study_trajectories(root: Path) -> list[Trajectory]:
    """What the runs of a study that are done measured."""
    done = [(folder, folder.measured()) for folder in study_runs(root)]
    return [Trajectory(folder.spec, rows) for folder, rows in done if rows is not None]


def study_outcome(root: Path) -> dict[str, Any]:
    """Everything a report shows of a study: its runs by status, their origin, notes, tables, claims, curves.

    Only runs that are done enter the analysis; diverged, failed and missing ones are named. It is `partial` while
    runs have not come to an end.
    """
    record = study_record(root)
    folders = study_runs(root)
    notes: list[str] = []
    trajectories = []
    states = {run: {"status": "missing", "reason": ""} for run in record["runs"]}
    for folder in folders:
        if folder.status == "damaged":
            states[folder.path.name] = {**_DAMAGED, "reason": "its run.json cannot be read; " + _AGAIN}
            continue
        states[folder.path.name] = {"status": folder.status, "reason": str(folder.record.get("reason", ""))}
        if folder.status != "done":
            continue
        rows = folder.measured()
        if rows is None:
            states[folder.path.name] = _DAMAGED
            continue
        trajectories.append(Trajectory(folder.spec, rows))
        unsure = sum(row.get(key) == 0 for row in rows for key in _CERTIFIED)
        notes += [f"{folder.spec.label}: {unsure} sharpness values are not certified."] if unsure else []
    notes += _times(folders)
    named = [{"run": label, **states[run]} for run, label in record["runs"].items()]
    try:
        analysis = _analysis(record)
    except ValueError as error:
        raise ValueError(f"{root}: {error}{newer(record.get('versions'))}") from None
    found = analysis.outcome(trajectories)
    criteria = [Criterion.of(table) for table in record.get("claims", [])]
    return {
        **{key: record[key] for key in ("study", "scale", "title", "about")},
        "file": record.get("file"),
        "axes": told_axes(record.get("axes", {})),
        "partial": any(item["status"] not in ("done", "diverged", "failed") for item in named),
        "num_runs": dict(Counter(item["status"] for item in named)),
        "not_done": [item for item in named if item["status"] != "done"],
        "seeds": sorted({t.spec.seed for t in trajectories}),
        "origins": _origins(folders),
        "notes": notes,
        "costs": _costs(folders),
        **found,
        "tables": [*found["tables"], criteria_table(criteria)] if criteria else found["tables"],
    }


def _times(folders: list[RunFolder]) -> list[str]:
    """How long the runs took, and how much of it went into looking at them; nothing where no run says."""
    done = [folder.record for folder in folders if folder.status == "done"]
    records = [r for r in done if r.get("seconds") and "seconds_observing" in r]
    if not records:
        return []
    seconds = [r["seconds"] for r in records]
    shares = [r["seconds_observing"] / r["seconds"] for r in records]
    each = f"{min(seconds):.0f} to {max(seconds):.0f} s each"
    return [
        f"Runs took {each}, {told(sum(seconds))} in all (wall time, added up, n = {len(records)} of {len(done)} runs).",
        f"Observing took {median(shares):.0%} of a run's time (median; {min(shares):.0%} to {max(shares):.0%}).",
    ]


def _costs(folders: list[RunFolder]) -> list[dict[str, Any]]:
    """The seconds of every run that is done, and those that went into looking at it."""
    done = [folder for folder in folders if folder.status == "done"]
    return [
        {"optimizer": folder.spec.variant, "seconds": r["seconds"], "observing": r["seconds_observing"]}
        for folder in done
        if (r := folder.record).get("seconds") and "seconds_observing" in r
    ]


def _origins(folders: list[RunFolder]) -> list[dict[str, Any]]:
    """The distinct makers of the runs: code, commit, versions, hardware, and how many runs each made."""
    keys = ("code", "commit", "versions", "hardware")
    records = [folder.record for folder in folders if folder.status != "damaged"]
    made = Counter(json.dumps({key: record.get(key) for key in keys}) for record in records)
    return [{**json.loads(maker), "num_runs": count} for maker, count in made.items()]


def _analysis(record: dict[str, Any]) -> Analysis:
    """The analysis that a study's record names; earlier records give the name of the study that has it."""
    if "analysis" in record:
        file = record.get("file")
        return load_analysis(record["analysis"], folder=Path(file).parent if file else None)
    return load_analysis(read_study(str(record.get("outcome")).replace("_", "-")).analysis)
