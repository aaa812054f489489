"""Two methods of a study, seed by seed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from surefoot.metric import metric_of
from surefoot.registry import unknown
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.claim import Verdict
from surefoot.studies.comparison import SCORES, Groups, by_method, method_of
from surefoot.studies.intervals import t_interval
from surefoot.studies.paired import below_zero, by_seed, last, subtract


@dataclass(frozen=True)
class Paired:
    """A quantity after the last step under two methods: both means, the mean difference, and which method it favours.

    `interval` is Student's at 95 % for the mean difference over seeds, None with fewer than two seeds. `lower` and
    `better` name a method only where the whole interval lies on one side of 0.
    """

    quantity: str  # key of a column
    first: float
    second: float
    difference: float  # first - second
    interval: tuple[float, float] | None
    seeds: tuple[int, ...]  # that both methods have
    runs_per_seed: tuple[int, int]  # of each method: learning rates, networks; their mean is the seed's value
    lower: str | None  # the method with the lower value; None where the interval does not decide
    better: str | None  # the method with the better score; None too where the quantity is no score of the test set

    @property
    def verdict(self) -> str:
        """Which method is better, or lower where the quantity is no score, in words."""
        if self.lower is None:
            return str(Verdict.INCONCLUSIVE)
        return f"{self.lower} is lower" if self.better is None else f"{self.better} is better"

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it, the verdict in words among the rest."""
        return {**asdict(self), "verdict": self.verdict}


def compare(runs: Sequence[Trajectory], one: str, other: str, *, quantities: Sequence[str] = ()) -> list[Paired]:
    """The pairs of two methods, for the scores that both have or for the quantities named.

    ValueError where a method is not there, or a quantity was not measured under both with a seed in common.
    """
    observed = [run for run in runs if len(run)]
    first, second = (method_named(observed, name) for name in (one, other))
    if first == second:
        raise ValueError(f"`a` and `b` must be two methods, got {first!r} twice.")
    measured = {key for run in observed for key in run.columns if "/" in key}
    for key in quantities:
        if key not in measured:
            raise unknown("quantity", key, measured)
    groups = by_method(observed)
    pairs = [pair for key in quantities or SCORES if (pair := _pair(groups, first, second, key)) is not None]
    lacking = [key for key in quantities if key not in {pair.quantity for pair in pairs}]
    if lacking or not pairs:
        what = ", ".join(lacking) or "scores"
        raise ValueError(f"{first} and {second} have no seed in common with {what} after the last step.")
    return pairs


def method_named(runs: Sequence[Trajectory], name: str) -> str:
    """The method of that name: as tables show it, or without some of its options where only one is called so."""
    methods = {method_of(run.spec): method_of(run.spec, options=False) for run in runs}
    short = [method for method, plain in methods.items() if plain == name]
    if not short:
        short = [m for m in methods if set(name.split()) <= set(m.split()) and m.split()[:1] == name.split()[:1]]
    if name in methods:
        return name
    if len(short) == 1:
        return short[0]
    if short:
        raise ValueError(
            f"{name!r} may be any of {len(short)} methods: {', '.join(map(repr, short))}. Give its options."
        )
    plain = Counter(methods.values())
    raise unknown("method", name, [method if plain[called] > 1 else called for method, called in methods.items()])


def _pair(groups: Groups, first: str, second: str, key: str) -> Paired | None:
    ends = [by_seed(groups[method], last(key)) for method in (first, second)]
    seeds = sorted(ends[0].keys() & ends[1].keys())
    off = list(subtract(*ends).values())
    if not off:
        return None
    one, other = (sum(values[seed] for seed in seeds) / len(seeds) for values in ends)
    lower = _lower(off, first, second)
    return Paired(
        quantity=key,
        first=one,
        second=other,
        difference=sum(off) / len(off),
        interval=t_interval(off),
        seeds=tuple(seeds),
        runs_per_seed=(_runs_per_seed(groups[first], seeds[0]), _runs_per_seed(groups[second], seeds[0])),
        lower=lower,
        better=_better(lower, first, second, key),
    )


def _runs_per_seed(runs: Sequence[Trajectory], seed: int) -> int:
    return sum(run.spec.seed == seed for run in runs)


def _lower(off: Sequence[float], first: str, second: str) -> str | None:
    match below_zero(off):
        case Verdict.REPRODUCED:
            return first
        case Verdict.NOT_SEEN:
            return second
    return None


def _better(lower: str | None, first: str, second: str, key: str) -> str | None:
    if lower is None or key not in SCORES:
        return None
    metric = metric_of(key)
    higher_is_better = metric is not None and metric.higher_is_better is True
    return (second if lower == first else first) if higher_is_better else lower
