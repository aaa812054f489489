"""Methods where the test images are corrupted or foreign: accuracy, calibration, and who notices."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Row
from surefoot.studies.analysis import need_observers
from surefoot.studies.comparison import Claim, Comparison, method_of, name_of, scale_of
from surefoot.studies.correlation import Trajectory
from surefoot.table import Cell, Estimate, Table

QUANTITIES = ("accuracy", "ece", "ada_ece", "ece_temperature", "auroc_ood")
_COLUMNS = (*(name_of(f"test/{quantity}") for quantity in QUANTITIES), "confidence - accuracy %")
_SPOILED = re.compile(r"(?:(?P<foreign>.+)-)?(?P<corruption>\w+)-(?P<severity>[1-5])/(?P<quantity>\w+)")
_NOTES = (
    "TCE: ECE after the temperature that is best by NLL on the clean validation images.",
    "OOD AUROC: how well the largest probability tells clean test images from corrupted (shifted) or foreign ones.",
)
_BLURS = {"motion_blur": "motion blur", "defocus_blur": "defocus blur", "impulse_noise": "impulse noise"}
_LOSSES = {"mbls": "MbLS", "cpc": "CPC", "acls": "ACLS", "mdca": "MDCA"}
_OPTIMIZERS = {"sgd": "SGD", "sam": "SAM", "csam": "CSAM"}
_ENSEMBLES = {"mc_dropout": "MC-Dropout", "deep_ensemble": "an ensemble"}

CLAIMS = (
    *(
        Claim(f"SAM is better calibrated than SGD under {name}", f"{key}/ece", "sam", "sgd")
        for key, name in _BLURS.items()
    ),
    Claim("CSAM is better calibrated than SAM under corruption", "shifted/ece", "csam", "sam"),
    Claim("SAM is more accurate than SGD under corruption", "shifted/accuracy", "sam", "sgd", lower=False),
    Claim("CSAM is more accurate than SAM under corruption", "shifted/accuracy", "csam", "sam", lower=False),
    *(
        claim
        for optimizer in ("csam", "sam")
        for loss, name in _LOSSES.items()
        for claim in (
            Claim(
                f"{_OPTIMIZERS[optimizer]} is better calibrated than {name} under corruption",
                "shifted/ece",
                optimizer,
                f"sgd + {loss}",
            ),
            Claim(
                f"{_OPTIMIZERS[optimizer]} is more accurate than {name} under corruption",
                "shifted/accuracy",
                optimizer,
                f"sgd + {loss}",
                lower=False,
            ),
        )
    ),
    Claim("SAM tells corrupted images from clean ones better than SGD", "shifted/auroc_ood", "sam", "sgd", lower=False),
    *(
        Claim(f"{name} lowers the ECE of {optimizer.upper()}", "test/ece", f"{optimizer} + {ensemble}", optimizer)
        for ensemble, name in _ENSEMBLES.items()
        for optimizer in _OPTIMIZERS
    ),
    *(
        Claim(
            f"{_OPTIMIZERS[one]} is better calibrated than {_OPTIMIZERS[other]} with {name}",
            "test/ece",
            f"{one} + {ensemble}",
            f"{other} + {ensemble}",
        )
        for ensemble, name in _ENSEMBLES.items()
        for one, other in (("sam", "sgd"), ("csam", "sam"))
    ),
    Claim("SAM tells foreign images from its own better than SGD", "foreign/auroc_ood", "sam", "sgd", lower=False),
    *(
        Claim(
            f"{optimizer.upper()} tells foreign images better with an ensemble",
            "foreign/auroc_ood",
            f"{optimizer} + deep_ensemble",
            optimizer,
            lower=False,
        )
        for optimizer in _OPTIMIZERS
    ),
    *(
        Claim(
            f"{optimizer.upper()} tells foreign images worse with MC-Dropout",
            "foreign/auroc_ood",
            f"{optimizer} + mc_dropout",
            optimizer,
        )
        for optimizer in _OPTIMIZERS
    ),
    Claim(
        "an ensemble of SGD is almost as accurate as one of SAM, at most a point below",
        "test/accuracy",
        "sgd + deep_ensemble",
        "sam + deep_ensemble",
        lower=False,
        limit=1.0,
    ),
    *(
        Claim(
            f"{name} on foreign images is larger for SAM than for SGD",
            "foreign/auroc_ood",
            f"sam + {ensemble}",
            "sam",
            lower=lower,
            beyond=(f"sgd + {ensemble}", "sgd"),
        )
        for ensemble, name, lower in (
            ("deep_ensemble", "the gain from an ensemble", False),
            ("mc_dropout", "the harm of MC-Dropout", True),
        )
    ),
)


def check(spec: RunSpec) -> None:
    """Raise ValueError unless a run of this spec measures what the study shows."""
    need_observers(spec, "calibration", "shift")


def outcome(runs: Iterable[Trajectory]) -> dict[str, Any]:
    """Clean and shifted scores, differences from SGD, scores by corruption and by severity, the claims."""
    held = [run for run in runs if run.rows]
    foreign = dict.fromkeys(key for run in held for key in foreign_means(run.rows[-1]))
    found = [replace(run, rows=[*run.rows[:-1], with_means(run.rows[-1])]) for run in held]
    keys = ("test/accuracy", "test/ece", *(f"shifted/{quantity}" for quantity in QUANTITIES), *foreign)
    compared = Comparison(claims=CLAIMS, scores=keys).outcome(found)
    scores, off = compared["tables"]
    title = "On clean test images and, shifted, over all corruptions and severities; mean and deviation over seeds"
    tables = [replace(scores, title=title, notes=_NOTES), off, by_corruption(found), by_severity(found)]
    short = {method_of(run.spec): run.spec.method for run in found}
    if len(set(short.values())) == len(short):  # then options tell nothing apart
        tables = [_renamed(table, short) for table in tables]
    return {**compared, "figures": "shift", "tables": tables}


def with_means(row: Row) -> Row:
    """The row with means over severities by corruption, over everything (`shifted`), and over foreign sets."""
    groups: dict[str, list[float]] = {}
    for key, value in row.items():
        found = _SPOILED.fullmatch(key)
        if found and not found["foreign"] and value is not None:
            for group in (found["corruption"], "shifted"):
                groups.setdefault(f"{group}/{found['quantity']}", []).append(value)
    foreign = foreign_means(row)
    over = {"foreign/auroc_ood": sum(foreign.values()) / len(foreign)} if foreign else {}
    return row | {key: sum(values) / len(values) for key, values in groups.items()} | foreign | over


def foreign_means(row: Row) -> dict[str, float]:
    """The AUROC of each foreign set; for one that is corrupted the mean, under its name with -c."""
    areas: dict[str, list[float]] = {}
    for key, value in row.items():
        where, _, quantity = key.rpartition("/")
        found = _SPOILED.fullmatch(key)
        if quantity == "auroc_ood" and value is not None and (found is None or found["foreign"]):
            areas.setdefault(where if found is None else f"{found['foreign']}-c", []).append(value)
    return {f"{where}/auroc_ood": sum(values) / len(values) for where, values in areas.items()}


def by_corruption(runs: Sequence[Trajectory]) -> Table:
    """Scores under each corruption, means over severities."""
    places = dict.fromkeys(found["corruption"] for run in runs for key in run.rows[-1] if (found := _own(key)))
    rows = [(method, where, *_cells(runs, method, where)) for method in _methods(runs) for where in places]
    title = "By corruption, mean over severities; deviation over seeds"
    return Table("by-corruption", title, ("method", "corruption", *_COLUMNS), tuple(rows))


def by_severity(runs: Sequence[Trajectory]) -> Table:
    """Scores under each corruption at each severity."""
    places = dict.fromkeys(
        (found["corruption"], int(found["severity"])) for run in runs for key in run.rows[-1] if (found := _own(key))
    )
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


def _own(key: str) -> re.Match[str] | None:
    found = _SPOILED.fullmatch(key)
    return found if found and not found["foreign"] else None


def _methods(runs: Sequence[Trajectory]) -> list[str]:
    return list(dict.fromkeys(method_of(run.spec) for run in runs))


def _cells(runs: Sequence[Trajectory], method: str, where: str) -> list[Cell]:
    rows = [run.rows[-1] for run in runs if method_of(run.spec) == method]
    cells: list[Cell] = []
    for quantity in QUANTITIES:
        key = f"{where}/{quantity}"
        cells.append(Estimate.of(scale_of(key) * value for row in rows if (value := row.get(key)) is not None))
    sure = [(row.get(f"{where}/confidence"), row.get(f"{where}/accuracy")) for row in rows]
    return [*cells, Estimate.of(100 * (c - a) for c, a in sure if c is not None and a is not None)]
