"""Limits for a quantity whose plug-in estimate is biased: the truths under which the estimate would not surprise."""

from collections.abc import Callable

from torch import Tensor

from surefoot.metrics._intervals._interval import IntervalOptions

_STEPS = 30


def invert(
    truth: Callable[[float], float],
    replicates: Callable[[float], Tensor],
    observed: float,
    *,
    calibrated: float,
    farthest: float,
    options: IntervalOptions,
) -> tuple[float, float]:
    """The smallest and the largest truth under which `observed` lies in the middle of its distribution.

    Worlds lie on a path x: at `calibrated` nothing is wrong, at 0 the world is as it was observed, beyond 0 as far as
    `farthest` it is worse. `truth(x)` is the quantity's value in world x, `replicates(x)` [R] estimates of it from
    samples drawn in that world; both fall from `farthest` to `calibrated`. The estimate of an error that is nearly 0 is
    far above it, and so are its replicates there: the calibrated world is found plausible where it is.
    """

    def as_large(x: float) -> bool:
        return float((replicates(x) >= observed).double().mean()) >= options.tail

    def as_small(x: float) -> bool:
        return float((replicates(x) <= observed).double().mean()) >= options.tail

    low = truth(_last(as_large, 0.0, calibrated))
    if as_small(calibrated):
        high = truth(_last(as_small, calibrated, farthest))
    else:  # smaller than noise alone would make it: an error of the noise's size may hide behind it
        high = observed + float(replicates(calibrated).quantile(1 - options.tail))
    return low, max(low, high)


def _last(plausible: Callable[[float], bool], start: float, end: float) -> float:
    """The last plausible point on the way from `start` to `end`, if `start` is one; else `start`."""
    if plausible(end):
        return end
    for _ in range(_STEPS):
        middle = (start + end) / 2
        start, end = (middle, end) if plausible(middle) else (start, middle)
    return start
