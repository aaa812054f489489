"""Values of runs by seed, their differences between methods, and what an interval says of them."""

from collections.abc import Callable, Sequence

from surefoot.studies.correlation import Trajectory, t_interval

Value = Callable[[Trajectory], float | None]
UNSURE = "cannot tell at this scale"


def last(key: str) -> Value:
    """What a run ends with."""
    return lambda run: run.rows[-1].get(key)


def overconfidence(run: Trajectory) -> float | None:
    """Mean confidence less accuracy on the test set at the end: positive where overconfident."""
    confidence, accuracy = run.rows[-1].get("test/confidence"), run.rows[-1].get("test/accuracy")
    return None if confidence is None or accuracy is None else confidence - accuracy


def by_seed(runs: Sequence[Trajectory], value: Value) -> dict[int, float]:
    """A value of one method's runs by seed, the mean where it has several with each.

    A seed that lacks some of the runs that another has is left out: means over different runs are no pair.
    """
    found: dict[int, list[float]] = {}
    for run in runs:
        number = value(run)
        if number is not None:
            found.setdefault(run.spec.seed, []).append(number)
    most = max(map(len, found.values()), default=0)
    return {seed: sum(values) / most for seed, values in sorted(found.items()) if len(values) == most}


def differences(
    runs: Sequence[Trajectory], others: Sequence[Trajectory], value: Value, *, instead: Value | None = None
) -> dict[int, float]:
    """A value of one method's runs less that of another's (or `instead` of it), for each seed that both have."""
    return less(by_seed(runs, value), by_seed(others, instead or value))


def less(first: dict[int, float], second: dict[int, float]) -> dict[int, float]:
    """The difference for each seed that both have."""
    return {seed: first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())}


def verdict(off: Sequence[float], *, lower: bool, limit: float = 0.0) -> str:
    """Whether differences lie below 0 (above it, where `lower` is false) with their whole interval; one cannot tell.

    With a `limit` they may be on the wrong side by that much.

    >>> verdict([0.2, 0.3, 0.4], lower=True), verdict([0.2, 0.3, 0.4], lower=True, limit=1.0)
    ('does not hold', 'holds')
    """
    interval = interval_of(off)
    if interval is None:
        return UNSURE
    low, high = interval if lower else (-interval[1], -interval[0])
    return "holds" if high < limit else "does not hold" if low > limit else UNSURE


def both(*verdicts: str) -> str:
    """The verdict on several claims at once."""
    if "does not hold" in verdicts:
        return "does not hold"
    return "holds" if set(verdicts) == {"holds"} else UNSURE


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
