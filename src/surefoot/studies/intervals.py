"""Confidence intervals that studies share: Student's for a mean, Welch's for a difference of two means."""

import math
from collections.abc import Sequence

from surefoot.table import Estimate


def t_interval(
    values: Sequence[float], *, level: float = 0.95, limits: tuple[float, float] | None = None
) -> tuple[float, float] | None:
    """Student's interval of the mean; None for fewer than two values.

    Args:
        values: What the mean is over.
        level: Confidence level.
        limits: The smallest and largest possible mean, to which the interval is cut.

    >>> [round(end, 3) for end in t_interval([0.2, 0.3, 0.4])]
    [0.052, 0.548]
    """
    from scipy.special import stdtrit

    over = Estimate.of(values)
    if over.mean is None or over.std is None:
        return None
    half = float(stdtrit(over.n - 1, (1 + level) / 2)) * over.std / math.sqrt(over.n)
    low, high = limits or (-math.inf, math.inf)
    return max(over.mean - half, low), min(over.mean + half, high)


def welch(first: Estimate, second: Estimate, *, level: float = 0.95) -> tuple[float, float, float] | None:
    """The difference of two means and Welch's interval of it; None where a group has fewer than two values."""
    from scipy.special import stdtrit

    if first.mean is None or first.std is None or second.mean is None or second.std is None:
        return None
    parts = [std**2 / n for std, n in ((first.std, first.n), (second.std, second.n))]
    gap, error = first.mean - second.mean, math.sqrt(sum(parts))
    if error == 0:
        return gap, gap, gap
    both = zip(parts, (first, second), strict=True)
    freedom = sum(parts) ** 2 / sum(part**2 / (item.n - 1) for part, item in both if part > 0)
    half = float(stdtrit(freedom, (1 + level) / 2)) * error
    return gap, gap - half, gap + half
