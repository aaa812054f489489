"""Values of runs by seed, and their differences between methods: paired, with Student's interval."""

import math
from collections.abc import Callable, Mapping, Sequence

from surefoot.runs.trajectory import Trajectory
from surefoot.studies.claim import Claim, Verdict
from surefoot.studies.intervals import t_interval

Value = Callable[[Trajectory], float]  # NaN where a run does not have it


def last(key: str) -> Value:
    """What a run ends with."""
    return lambda run: run.last(key)


def overconfidence(run: Trajectory) -> float:
    """Mean confidence less accuracy on the test set at the end: positive where overconfident."""
    return run.last("test/confidence") - run.last("test/accuracy")


def by_seed(runs: Sequence[Trajectory], value: Value) -> dict[int, float]:
    """A value of one method's runs by seed, the mean where it has several with each.

    A seed that lacks some of the runs that another has is left out: means over different runs are no pair.
    """
    values: dict[int, list[float]] = {}
    for run in runs:
        number = value(run)
        if math.isfinite(number):
            values.setdefault(run.spec.seed, []).append(number)
    most = max(map(len, values.values()), default=0)
    return {seed: sum(numbers) / most for seed, numbers in sorted(values.items()) if len(numbers) == most}


def differences(
    runs: Sequence[Trajectory], others: Sequence[Trajectory], value: Value, *, instead: Value | None = None
) -> dict[int, float]:
    """A value of one method's runs less that of another's (or `instead` of it), for each seed that both have."""
    return subtract(by_seed(runs, value), by_seed(others, instead or value))


def subtract(first: Mapping[int, float], second: Mapping[int, float]) -> dict[int, float]:
    """The difference for each seed that both have."""
    return {seed: first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())}


def below_zero(values: Sequence[float], *, limit: float = 0.0) -> Verdict:
    """Whether the mean lies below 0 with its whole interval; with a `limit` it may be above 0 by that much.

    >>> str(below_zero([0.2, 0.3, 0.4])), str(below_zero([0.2, 0.3, 0.4], limit=1.0)), str(below_zero([0.2]))
    ('not seen at this scale', 'reproduced', 'inconclusive')
    """
    interval = t_interval(values)
    if interval is None or interval[0] <= limit <= interval[1]:
        return Verdict.INCONCLUSIVE
    return Verdict.of(interval[1] < limit)


def above_zero(values: Sequence[float], *, limit: float = 0.0) -> Verdict:
    """The same, that it lies above 0."""
    return below_zero([-value for value in values], limit=limit)


def mean_with_interval(values: Sequence[float], *, digits: int = 2) -> str | None:
    """The mean with its interval and number, as it is printed; None for no values.

    >>> mean_with_interval([0.2, 0.3, 0.4])
    '+0.30 [+0.05, +0.55] (n=3)'
    """
    if not values:
        return None
    interval = t_interval(values)
    spread = "" if interval is None else f" [{interval[0]:+.{digits}f}, {interval[1]:+.{digits}f}]"
    return f"{sum(values) / len(values):+.{digits}f}{spread} (n={len(values)})"


def difference_claim(
    id: str,
    statement: str,
    values: Sequence[float],
    *,
    lower: bool = True,
    limit: float = 0.0,
    digits: int = 2,
    of: str = "",
    setting: str = "",
) -> Claim:
    """The claim that paired differences are below 0 on average (above it, where `lower` is false).

    Args:
        id: The claim's id.
        statement: What is claimed.
        values: A difference per seed.
        lower: Whether the claim is that they are below 0.
        limit: By how much the mean may be on the wrong side of 0.
        digits: Decimals that are printed.
        of: What the values are differences of, for print.
        setting: Where the claim is judged.
    """
    text = mean_with_interval(values, digits=digits)
    low, high = t_interval(values) or (None, None)
    return Claim(
        id=id,
        statement=statement,
        verdict=below_zero(values, limit=limit) if lower else above_zero(values, limit=limit),
        estimate=sum(values) / len(values) if values else None,
        low=low,
        high=high,
        n=(len(values),) if values else (),
        setting=setting,
        measured=f"{of}: {text}" if text and of else text or "",
    )
