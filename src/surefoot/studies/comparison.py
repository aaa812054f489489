"""Training methods side by side after the last step: scores, paired differences from a baseline, and claims.

A study that only wants scores and differences from SGD can name this module as its `analysis`. One that judges claims
too makes a `Comparison` of its own.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.analysis import need_observers
from surefoot.studies.claim import Claim, slug
from surefoot.studies.outcome import Outcome
from surefoot.studies.paired import (
    difference_claim,
    differences,
    last,
    mean_with_interval,
    overconfidence,
    subtract,
)
from surefoot.table import Cell, Estimate, Table

Groups = Mapping[str, Sequence[Trajectory]]  # the runs of every method


@dataclass(frozen=True)
class Score:
    """How tables show a quantity by which methods are compared; its metric's record says which direction is better."""

    name: str
    scale: float = 100.0  # what it is multiplied by to be shown: percent if not given


SCORES = {  # by key
    "test/accuracy": Score("accuracy %"),
    "test/ece": Score("ECE %"),
    "test/classwise_ece": Score("classwise ECE %"),
    "test/ada_ece": Score("AdaECE %"),
    "test/ece_temperature": Score("TCE %"),
    "test/auroc_correct": Score("AUROC %"),
    "test/auroc_ood": Score("OOD AUROC %"),
    "test/nll": Score("NLL", scale=1.0),
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
    named = [method for method, runs in groups.items() if method_of(runs[0].spec, options=False) == plain]
    return [method for method in named if options <= set(method.split())]


def _alike(groups: Groups, name: str, one: str) -> list[str]:
    """Of the methods of this name those whose options are most like those of `one`: like is compared with like.

    More than one where nothing tells which, as where only they have the option in which they differ.
    """
    own = _options(one)

    def unlike(method: str) -> tuple[int, int]:
        shared = [own[key] == value for key, value in _options(method).items() if key in own]
        return shared.count(False), -shared.count(True)

    named = _named(groups, name)
    best = min(map(unlike, named), default=None)
    return [method for method in named if unlike(method) == best]


def _options(method: str) -> dict[tuple[str, str], str]:
    """Values by the part that they are an option of, the optimizer or what a loss or ensemble is called, and name."""
    options: dict[tuple[str, str], str] = {}
    for place, part in enumerate(method.split(" + ")):
        name, *words = part.split()
        for key, _, value in (word.partition("=") for word in words):
            options["optimizer" if place == 0 else name, key] = value
    return options


@dataclass(frozen=True)
class Contrast:
    """The claim that one method has a lower (or higher) score than another, or one about as good."""

    statement: str
    quantity: str  # key of a column
    better: str  # names, as in "csam + focal"; with options where those matter, as in "csam gamma=1.0"
    than: str
    lower: bool = True
    limit: float = 0.0  # by how much it may be on the wrong side, in the units shown
    beyond: tuple[str, str] | None = None  # two methods: their difference is taken off, for one gain against another
    id: str = ""  # of the claim, without the setting; made of the quantity and the methods if not given

    @property
    def claim_id(self) -> str:
        """The id of the claim, without the setting.

        >>> Contrast("SAM is about as accurate as SGD", "test/accuracy", "sam", "sgd", lower=False, limit=1.0).claim_id
        'accuracy-close/sam/sgd'
        """
        family = slug(self.quantity.rpartition("/")[2]) + ("-close" if self.limit else "")
        return self.id or "/".join([family, slug(self.better), slug(self.than)])


@dataclass(frozen=True)
class Comparison:
    """An analysis that compares what methods end with, and judges some claims.

    Args:
        contrasts: Claims about two methods each.
        baseline: The method that the others are compared with in the table of differences.
        scores: Keys of the quantities in the tables; those that no run ends with are left out.
        more: Makes the claims that are no difference of two methods.
        title: Of the table of claims.
    """

    contrasts: tuple[Contrast, ...] = ()
    baseline: str = "sgd"
    scores: tuple[str, ...] = tuple(SCORES)
    more: Callable[[Groups], Iterable[Claim]] | None = None
    title: str = Outcome.title

    def check(self, spec: RunSpec) -> None:
        """Raise ValueError unless a run of this spec measures what the study compares."""
        need_observers(spec, "calibration")

    def outcome(self, runs: Iterable[Trajectory]) -> Outcome:
        """The table of scores, the differences from the baseline, the claims; by setting where there are several."""
        settings: dict[str, list[Trajectory]] = {}
        for run in runs:
            if len(run):
                settings.setdefault(run.spec.network, []).append(run)
        tables: list[Table] = []
        claims: list[Claim] = []
        for setting, group in settings.items() or {"": []}.items():
            groups = by_method(group)
            made = [self._scores(group, groups), self._differences(group, groups)]
            judged = [*(claim for each in self.contrasts for claim in judge(groups, each)), *self._more(groups)]
            several = len(settings) > 1
            tables += [_table_within(setting, table) for table in made] if several else made
            claims += [_claim_within(setting, claim) for claim in judged] if several else judged
        return Outcome(
            tables=tuple(tables),
            claims=tuple(claims),
            title=self.title,
            measured="difference here, 95 % interval",
        )

    def _more(self, groups: Groups) -> Iterable[Claim]:
        return self.more(groups) if self.more else ()

    def _shown(self, runs: Sequence[Trajectory]) -> list[str]:
        return [key for key in self.scores if any(math.isfinite(run.last(key)) for run in runs)]

    def _scores(self, runs: Sequence[Trajectory], groups: Groups) -> Table:
        shown = self._shown(runs)
        rows: list[tuple[Cell, ...]] = []
        for method, group in groups.items():
            cells = [Estimate.of_measured(scale_of(key) * run.last(key) for run in group) for key in shown]
            rows.append((method, *cells, Estimate.of_measured(100 * overconfidence(run) for run in group)))
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
                    cells.append(mean_with_interval([scale_of(key) * value for value in off.values()]))
                rows.append((method if len(bases) == 1 else f"{method} from {base}", *cells))
        base = bases[0] if len(bases) == 1 else self.baseline
        return Table(
            name="differences",
            title=f"Difference from {base}, paired by seed: mean and 95 % interval (Student's)",
            columns=("method", *(name_of(key) for key in shown)),
            rows=tuple(rows),
        )


def judge(groups: Groups, contrast: Contrast) -> list[Claim]:
    """A contrast for every setting of its better method, each against the other method in the setting most like it.

    Nothing where the study lacks one of its methods.
    """
    better, than = (_named(groups, name) for name in (contrast.better, contrast.than))
    claims: list[Claim] = []
    for one, other in [(method, like) for method in better for like in _alike(groups, contrast.than, method)]:
        off = differences(groups[one], groups[other], last(contrast.quantity))
        if contrast.beyond:
            beyond = [_alike(groups, name, one) for name in contrast.beyond]
            if any(len(methods) != 1 for methods in beyond):
                return []
            first, second = (groups[methods[0]] for methods in beyond)
            off = subtract(off, differences(first, second, last(contrast.quantity)))
        setting = f"{one} against {other}" if len(than) > 1 else one if len(better) > 1 else ""
        claims.append(
            difference_claim(
                "/".join(filter(None, (contrast.claim_id, slug(setting)))),
                contrast.statement,
                [scale_of(contrast.quantity) * value for value in off.values()],
                lower=contrast.lower,
                limit=contrast.limit,
                of=name_of(contrast.quantity),
                setting=setting,
            )
        )
    return claims


def _table_within(setting: str, table: Table) -> Table:
    """The table as one of several: the setting in its name and title."""
    short = setting.replace(" ", "-").replace("=", "")
    return replace(table, name=f"{table.name}-{short}", title=f"{setting}: {table.title}")


def _claim_within(setting: str, claim: Claim) -> Claim:
    """The claim as one of several: the setting in its id and beside its statement."""
    return replace(claim, id=f"{claim.id}/{slug(setting)}", setting=", ".join(filter(None, (claim.setting, setting))))


def by_method(runs: Iterable[Trajectory]) -> Groups:
    """Runs by the names of their methods, in the order of their first runs."""
    groups: dict[str, list[Trajectory]] = {}
    for run in runs:
        groups.setdefault(method_of(run.spec), []).append(run)
    return groups


def name_of(key: str) -> str:
    """What a score is called; one that is not of the test set says of what it is.

    >>> name_of("test/ece"), name_of("motion_blur/ece"), name_of("train/hessian_sharpness")
    ('ECE %', 'ECE % motion_blur', 'train/hessian_sharpness')
    """
    where = key.rpartition("/")[0]
    score = _score_of(key)
    if score is None:
        return key
    return score.name if where == "test" else f"{score.name} {where}"


def scale_of(key: str) -> float:
    """What a score is multiplied by to be shown."""
    score = _score_of(key)
    return 1.0 if score is None else score.scale


def _score_of(key: str) -> Score | None:
    """The score that a key is of, on whatever data; None for a quantity that is no score."""
    return SCORES.get(f"test/{key.rpartition('/')[2]}")


_SCORES_ALONE = Comparison()  # the analysis that this module is: scores and differences, no claims
check = _SCORES_ALONE.check
outcome = _SCORES_ALONE.outcome
