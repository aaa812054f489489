"""Training methods side by side after the last step: scores, paired differences from a baseline, and claims."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from surefoot.runs.spec import RunSpec
from surefoot.studies.analysis import need_observers
from surefoot.studies.correlation import Trajectory
from surefoot.studies.seeds import differences, last, less, overconfidence, verdict, with_interval
from surefoot.table import Cell, Estimate, Table

Groups = Mapping[str, Sequence[Trajectory]]  # the runs of every method
Judged = tuple[str, str, str]  # a claim, what was measured, the verdict
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
    """The methods of this name, whatever options they have beside those that it says."""
    plain = " ".join(word for word in name.split() if "=" not in word)
    options = {word for word in name.split() if "=" in word}
    found = [method for method, runs in groups.items() if method_of(runs[0].spec, options=False) == plain]
    return [method for method in found if options <= set(method.split())]


def _alike(groups: Groups, name: str, one: str) -> list[str]:
    """Of the methods of this name those whose options are most like those of `one`: like is compared with like.

    More than one where nothing tells which, as where only they have the option in which they differ.
    """
    own = _options(one)

    def unlike(method: str) -> tuple[int, int]:
        shared = [own[key] == value for key, value in _options(method).items() if key in own]
        return shared.count(False), -shared.count(True)

    found = _named(groups, name)
    best = min(map(unlike, found), default=None)
    return [method for method in found if unlike(method) == best]


def _options(method: str) -> dict[tuple[str, str], str]:
    """Values by the part that they are an option of, the optimizer or what a loss or ensemble is called, and name."""
    found: dict[tuple[str, str], str] = {}
    for place, part in enumerate(method.split(" + ")):
        name, *words = part.split()
        for key, _, value in (word.partition("=") for word in words):
            found["optimizer" if place == 0 else name, key] = value
    return found


@dataclass(frozen=True)
class Claim:
    """A paper's statement that one method has a lower (or higher) score than another, or one about as good."""

    text: str
    quantity: str  # key of a row
    better: str  # names, as in "csam + focal"; with options where those matter, as in "csam gamma=1.0"
    than: str
    lower: bool = True
    limit: float = 0.0  # by how much it may be on the wrong side, in the units shown
    beyond: tuple[str, str] | None = None  # two methods: their difference is taken off, for one gain against another


@dataclass(frozen=True)
class Comparison:
    """An analysis that compares what methods end with, and judges some claims."""

    claims: tuple[Claim, ...] = ()
    baseline: str = "sgd"
    scores: tuple[str, ...] = tuple(SCORES)
    more: Callable[[Groups], Iterable[Judged]] | None = None  # claims that are no difference of two methods

    def check(self, spec: RunSpec) -> None:
        """Raise ValueError unless a run of this spec measures what the study compares."""
        need_observers(spec, "calibration")

    def outcome(self, runs: Iterable[Trajectory]) -> dict[str, Any]:
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
            sure = Estimate.of(100 * gap for run in group if (gap := overconfidence(run)) is not None)
            rows.append((method, *cells, sure))
        return Table(
            name="scores",
            title="On the test set after the last step, mean and deviation over seeds",
            columns=("method", *(name_of(key) for key in shown), "confidence - accuracy %"),
            rows=tuple(rows),
            notes=("TCE: ECE after the temperature that is best by NLL on the validation split.",),
        )

    def _differences(self, runs: Sequence[Trajectory], groups: Groups) -> Table:
        shown = self._shown(runs)
        rows: list[tuple[Cell, ...]] = []
        bases = _named(groups, self.baseline)
        for method in (method for method in groups if method not in bases):
            for base in _alike(groups, self.baseline, method):
                cells: list[Cell] = []
                for key in shown:
                    off = differences(groups[method], groups[base], last(key))
                    cells.append(with_interval([scale_of(key) * value for value in off.values()]))
                rows.append((method if len(bases) == 1 else f"{method} from {base}", *cells))
        base = bases[0] if len(bases) == 1 else self.baseline
        return Table(
            name="differences",
            title=f"Difference from {base}, paired by seed: mean and 95 % interval (Student's)",
            columns=("method", *(name_of(key) for key in shown)),
            rows=tuple(rows),
        )

    def _judged(self, groups: Groups) -> Table:
        rows = [row for claim in self.claims for row in judged(groups, claim)]
        return Table(
            name="claims",
            title="What the paper says, and what these runs say",
            columns=("claim", "difference here, 95 % interval", "verdict"),
            rows=(*rows, *(self.more(groups) if self.more else ())),
        )


def judged(groups: Groups, claim: Claim) -> list[Judged]:
    """A claim for every setting of its better method, each against the other method in the setting most like it.

    Nothing where the study lacks one of its methods.
    """
    better, than = (_named(groups, name) for name in (claim.better, claim.than))
    rows: list[Judged] = []
    pairs = [(method, like) for method in better for like in _alike(groups, claim.than, method)]
    for one, other in pairs:
        off = differences(groups[one], groups[other], last(claim.quantity))
        if claim.beyond:
            beyond = [_alike(groups, name, one) for name in claim.beyond]
            if any(len(found) != 1 for found in beyond):
                return []
            first, second = (groups[found[0]] for found in beyond)
            off = less(off, differences(first, second, last(claim.quantity)))
        scaled = [scale_of(claim.quantity) * value for value in off.values()]
        told = f"{name_of(claim.quantity)}: {with_interval(scaled)}" if scaled else "-"
        setting = f" ({one} against {other})" if len(than) > 1 else f" ({one})" if len(better) > 1 else ""
        rows.append((claim.text + setting, told, verdict(scaled, lower=claim.lower, limit=claim.limit)))
    return rows


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
