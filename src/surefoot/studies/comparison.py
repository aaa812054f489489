"""Training methods side by side after the last step: scores, paired differences from a baseline, and claims."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from surefoot.runs.spec import RunSpec
from surefoot.runs.store import Row
from surefoot.studies.correlation import Trajectory, t_interval
from surefoot.studies.needs import need_observers
from surefoot.table import Cell, Estimate, Table

Groups = Mapping[str, Sequence[Trajectory]]  # the runs of every method
SCORES = {  # key of a row -> name, and whether it is shown in percent
    "test/accuracy": ("accuracy %", 100.0),
    "test/ece": ("ECE %", 100.0),
    "test/classwise_ece": ("classwise ECE %", 100.0),
    "test/ada_ece": ("AdaECE %", 100.0),
    "test/ece_temperature": ("TCE %", 100.0),
    "test/auroc_correct": ("AUROC %", 100.0),
    "test/auroc_ood": ("OOD AUROC %", 100.0),
    "test/nll": ("NLL", 1.0),
}


def method_of(spec: RunSpec, *, options: bool = True) -> str:
    """The optimizer, the loss where it is not cross-entropy, the ensemble where there is one, with their options."""
    if not options:
        return spec.method
    parts = [spec.variant]
    for part, plain in ((spec.loss, "cross_entropy"), (spec.ensemble, "single")):
        if part.name != plain:
            parts.append(" ".join([part.name, *(f"{key}={value}" for key, value in part.options.items())]))
    return " + ".join(parts)


def _named(groups: Groups, name: str) -> list[str]:
    """The methods whose names, without options, are these."""
    return [method for method, runs in groups.items() if method_of(runs[0].spec, options=False) == name]


def _find(groups: Groups, name: str) -> str | None:
    return next(iter(_named(groups, name)), None)


@dataclass(frozen=True)
class Claim:
    """A paper's statement that one method has a lower (or higher) score than another."""

    text: str
    quantity: str  # key of a row
    better: str  # names without options, as in "csam + focal"
    than: str
    lower: bool = True


@dataclass(frozen=True)
class Comparison:
    """An analysis that compares what methods end with, and judges some claims."""

    claims: tuple[Claim, ...] = ()
    baseline: str = "sgd"
    scores: tuple[str, ...] = tuple(SCORES)

    def check(self, spec: RunSpec) -> None:
        """Raise ValueError unless a run of this spec measures what the study compares."""
        need_observers(spec, "calibration")

    def outcome(self, runs: Iterable[Trajectory], *, compare_with_paper: bool) -> dict[str, Any]:
        """The table of scores, the differences from the baseline, the claims; by setting where there are several."""
        settings: dict[str, list[Trajectory]] = {}
        for run in runs:
            if run.rows:
                settings.setdefault(run.spec.network, []).append(run)
        tables: list[Table] = []
        judged: list[Table] = []
        for setting, found in settings.items() or {"": []}.items():
            groups = by_method(found)
            made = [self._scores(found, groups), self._differences(found, groups), self._judged(groups)]
            *some, claims = made if len(settings) < 2 else [_within(setting, table) for table in made]
            tables += some
            judged.append(claims)
        return {
            "figures": "comparison",
            "cells": [],
            "tables": tables,
            "claims": replace(judged[0], rows=tuple(row for table in judged for row in table.rows)),
            "curves": [],
        }

    def _shown(self, runs: Sequence[Trajectory]) -> list[str]:
        return [key for key in self.scores if any(run.rows[-1].get(key) is not None for run in runs)]

    def _scores(self, runs: Sequence[Trajectory], groups: Groups) -> Table:
        shown = self._shown(runs)
        rows: list[tuple[Cell, ...]] = []
        for method, group in groups.items():
            values = [[run.rows[-1].get(key) for run in group] for key in shown]
            cells = [
                Estimate.of(scale_of(key) * value for value in column if value is not None)
                for key, column in zip(shown, values, strict=True)
            ]
            rows.append((method, *cells))
        return Table(
            name="scores",
            title="On the test set after the last step, mean and deviation over seeds",
            columns=("method", *(name_of(key) for key in shown)),
            rows=tuple(rows),
            notes=("TCE: ECE after the temperature that is best by NLL on the validation split.",),
        )

    def _differences(self, runs: Sequence[Trajectory], groups: Groups) -> Table:
        shown = self._shown(runs)
        rows: list[tuple[Cell, ...]] = []
        base = _find(groups, self.baseline)
        for method in groups:
            if base is None or method == base:
                continue
            cells: list[Cell] = []
            for key in shown:
                off = [scale_of(key) * value for value in differences(groups, method, base, key)]
                cells.append(with_interval(off))
            rows.append((method, *cells))
        return Table(
            name="differences",
            title=f"Difference from {base}, paired by seed: mean and 95 % interval (Student's)",
            columns=("method", *(name_of(key) for key in shown)),
            rows=tuple(rows),
        )

    def _judged(self, groups: Groups) -> Table:
        rows: list[tuple[Cell, ...]] = []
        for claim in self.claims:
            other = _find(groups, claim.than)
            better = _named(groups, claim.better)
            for one in (*better,) or (None,):  # each setting of the method is judged for itself
                off = [] if one is None or other is None else differences(groups, one, other, claim.quantity)
                scaled = [scale_of(claim.quantity) * value for value in off]
                told = f"{name_of(claim.quantity)}: {with_interval(scaled)}" if scaled else "-"
                text = claim.text if len(better) < 2 else f"{claim.text} ({one})"
                rows.append((text, told, verdict(scaled, lower=claim.lower)))
        return Table(
            name="claims",
            title="What the paper says, and what these runs say",
            columns=("claim", "difference here, 95 % interval", "verdict"),
            rows=tuple(rows),
        )


def _within(setting: str, table: Table) -> Table:
    """The table as one of several: the setting in its names, and in what each row is about."""
    short = setting.replace(" ", "-").replace("=", "")
    if table.name == "claims":
        return replace(table, rows=tuple((f"{row[0]} ({setting})", *row[1:]) for row in table.rows))
    return replace(table, name=f"{table.name}-{short}", title=f"{setting}: {table.title}")


def by_method(runs: Iterable[Trajectory]) -> Groups:
    """Runs by the names of their methods, in the order of their first runs."""
    found: dict[str, list[Trajectory]] = {}
    for run in runs:
        found.setdefault(method_of(run.spec), []).append(run)
    return found


def differences(groups: Groups, one: str, other: str, key: str) -> list[float]:
    """Last value of one method minus that of another, for each seed that both have."""
    first, second = (last_values(groups.get(method, ()), key) for method in (one, other))
    return [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]


def last_values(runs: Sequence[Trajectory], key: str) -> dict[int, float]:
    """The value of one method's runs after the last step by seed, the mean where it has several with each.

    A seed that lacks some of the runs that another has is left out: means over different runs are no pair.
    """
    found: dict[int, list[float]] = {}
    for run in runs:
        value = _last(run.rows, key)
        if value is not None:
            found.setdefault(run.spec.seed, []).append(value)
    most = max(map(len, found.values()), default=0)
    return {seed: sum(values) / most for seed, values in found.items() if len(values) == most}


def verdict(off: Sequence[float], *, lower: bool) -> str:
    """Whether differences are on one side of 0 with their whole interval; one seed cannot tell."""
    interval = interval_of(off)
    if interval is None:
        return "cannot tell at this scale"
    low, high = interval if lower else (-interval[1], -interval[0])
    return "holds" if high < 0 else "does not hold" if low > 0 else "cannot tell at this scale"


def interval_of(values: Sequence[float]) -> tuple[float, float] | None:
    """Student's 95 % interval of the mean; None for fewer than two values."""
    return t_interval(values, limits=None)


def with_interval(values: Sequence[float], *, digits: int = 2) -> str | None:
    """The mean with its interval and number, as it is printed; None for no values."""
    if not values:
        return None
    mean = sum(values) / len(values)
    interval = interval_of(values)
    spread = "" if interval is None else f" [{interval[0]:+.{digits}f}, {interval[1]:+.{digits}f}]"
    return f"{mean:+.{digits}f}{spread} (n={len(values)})"


def _last(rows: Sequence[Row], key: str) -> float | None:
    return rows[-1].get(key)


def name_of(key: str) -> str:
    """What a score is called; one that is not of the test set says of what it is.

    >>> name_of("test/ece"), name_of("motion_blur/ece"), name_of("train/hessian_sharpness")
    ('ECE %', 'ECE % motion_blur', 'train/hessian_sharpness')
    """
    where, _, quantity = key.rpartition("/")
    if f"test/{quantity}" not in SCORES:
        return key
    name = SCORES[f"test/{quantity}"][0]
    return name if where == "test" else f"{name} {where}"


def scale_of(key: str) -> float:
    """What a score is multiplied by to be shown."""
    quantity = key.rpartition("/")[2]
    return SCORES[f"test/{quantity}"][1] if f"test/{quantity}" in SCORES else 1.0
