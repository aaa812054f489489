"""Methods where the test images are corrupted or out-of-distribution: accuracy, calibration, and who notices."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.analysis import need_observers
from surefoot.studies.comparison import Comparison, method_of, name_of, scale_of
from surefoot.studies.outcome import Outcome
from surefoot.table import Cell, Estimate, Table
from surefoot_papers.sam_calibration.shared_claims import TITLE
from surefoot_papers.sam_calibration.shift._contrasts import CONTRASTS
from surefoot_papers.sam_calibration.shift._keys import CorruptedKey, corrupted_test_key
from surefoot_papers.sam_calibration.shift._means import ood_means, with_means

QUANTITIES = ("accuracy", "ece", "ada_ece", "ece_temperature", "auroc_ood")
_COLUMNS = (*(name_of(f"test/{quantity}") for quantity in QUANTITIES), "confidence - accuracy %")
_NOTES = (
    "TCE: ECE after the temperature that is best by NLL on the clean validation images.",
    "OOD AUROC: how well the largest probability tells clean test images from corrupted (shifted) or foreign ones.",
)


def check(spec: RunSpec) -> None:
    """Raise ValueError unless a run of this spec measures what the study shows."""
    need_observers(spec, "calibration", "shift")


def outcome(runs: Iterable[Trajectory]) -> Outcome:
    """Clean and shifted scores, differences from SGD, scores by corruption and by severity, the claims."""
    observed = [run for run in runs if len(run)]
    ood = dict.fromkeys(key for run in observed for key in ood_means(run))
    whole = [with_means(run) for run in observed]
    keys = ("test/accuracy", "test/ece", *(f"shifted/{quantity}" for quantity in QUANTITIES), *ood)
    compared = Comparison(contrasts=CONTRASTS, scores=keys, title=TITLE).outcome(whole)
    scores, off = compared.tables
    title = "On clean test images and, shifted, over all corruptions and severities; mean and deviation over seeds"
    tables = [replace(scores, title=title, notes=_NOTES), off, by_corruption(whole), by_severity(whole)]
    short = {method_of(run.spec): run.spec.method for run in whole}
    if len(set(short.values())) == len(short):  # then options tell nothing apart
        tables = [_renamed(table, short) for table in tables]
    return replace(compared, tables=tuple(tables))


def by_corruption(runs: Sequence[Trajectory]) -> Table:
    """Scores under each corruption, means over severities."""
    places = dict.fromkeys(parts.corruption for parts in _corrupted(runs))
    rows = [(method, where, *_cells(runs, method, where)) for method in _methods(runs) for where in places]
    title = "By corruption, mean over severities; deviation over seeds"
    return Table("by-corruption", title, ("method", "corruption", *_COLUMNS), tuple(rows))


def by_severity(runs: Sequence[Trajectory]) -> Table:
    """Scores under each corruption at each severity."""
    places = dict.fromkeys((parts.corruption, parts.severity) for parts in _corrupted(runs))
    rows = [
        (method, where, severity, *_cells(runs, method, f"{where}-{severity}"))
        for method in _methods(runs)
        for where, severity in places
    ]
    title = "By corruption and severity, mean and deviation over seeds"
    return Table("by-severity", title, ("method", "corruption", "severity", *_COLUMNS), tuple(rows))


def _renamed(table: Table, names: dict[str, str]) -> Table:
    rows = tuple((names[str(row[0])], *row[1:]) for row in table.rows)
    title = table.title
    for old, new in names.items():
        title = title.replace(f" {old},", f" {new},")
    return replace(table, title=title, rows=rows)


def _corrupted(runs: Sequence[Trajectory]) -> Iterator[CorruptedKey]:
    """What the runs were measured on that is corrupted test images."""
    for run in runs:
        for key in run.columns:
            parts = corrupted_test_key(key)
            if parts is not None:
                yield parts


def _methods(runs: Sequence[Trajectory]) -> list[str]:
    return list(dict.fromkeys(method_of(run.spec) for run in runs))


def _cells(runs: Sequence[Trajectory], method: str, where: str) -> list[Cell]:
    group = [run for run in runs if method_of(run.spec) == method]
    keys = [f"{where}/{quantity}" for quantity in QUANTITIES]
    return [
        *(Estimate.of_measured(scale_of(key) * run.last(key) for run in group) for key in keys),
        Estimate.of_measured(100 * (run.last(f"{where}/confidence") - run.last(f"{where}/accuracy")) for run in group),
    ]
