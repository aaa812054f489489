"""How runs of one optimizer differ from those of another, by learning rate and seed, with an interval."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from surefoot.runs.trajectory import Trajectory
from surefoot.studies.intervals import welch
from surefoot.table import Estimate

_TINY = 1e-300  # under a logarithm, in place of 0


@dataclass(frozen=True)
class Difference:
    """A mean difference, its 95 % interval, and of how many values."""

    mean: float
    low: float
    high: float
    n: tuple[int, ...]  # pairs, or the runs of each group where they are not paired

    def __str__(self) -> str:
        return f"{self.mean:+.3f} [{self.low:+.3f}, {self.high:+.3f}] (n={self.count})"

    @property
    def count(self) -> str:
        """The n as it is printed."""
        return " and ".join(map(str, self.n))

    @property
    def times(self) -> str:
        """Of logarithms: how many times as large."""
        mean, low, high = (math.exp(value) for value in (self.mean, self.low, self.high))
        return f"{mean:.3g} times [{low:.3g}, {high:.3g}] (n={self.count})"

    def __neg__(self) -> "Difference":
        return Difference(-self.mean, -self.high, -self.low, self.n)


def difference_from(
    runs: Sequence[Trajectory],
    variant: str,
    value: Callable[[Trajectory], float],
    *,
    baseline: str,
    logs: bool = False,
) -> Difference | None:
    """How a value of one variant's runs differs from that of the baseline's.

    Paired, where the baseline has a run of the same learning rate and seed for each; else a difference of two means.
    Runs whose value is not known are left out.

    Args:
        runs: Runs of both.
        variant: An optimizer with its options, as `RunSpec.variant` has it.
        value: Of one run; NaN where it is not known.
        baseline: The variant to compare with.
        logs: Whether to compare logarithms.

    Returns:
        The difference; None where a group has fewer than two values.
    """
    ours, plain = (_values(runs, name, value, logs=logs) for name in (variant, baseline))
    if ours.keys() <= plain.keys():
        gap = welch(Estimate.of(ours[key] - plain[key] for key in ours), Estimate(0.0, 0.0, len(plain)))
        return None if gap is None else Difference(*gap, (len(ours),))
    gap = welch(Estimate.of(ours.values()), Estimate.of(plain.values()))
    return None if gap is None else Difference(*gap, (len(ours), len(plain)))


def _values(
    runs: Sequence[Trajectory], variant: str, value: Callable[[Trajectory], float], *, logs: bool
) -> dict[tuple[float, int], float]:
    values = {(run.lr, run.spec.seed): value(run) for run in runs if run.spec.variant == variant}
    finite = {key: number for key, number in values.items() if math.isfinite(number)}
    return {key: math.log(max(number, _TINY)) if logs else number for key, number in finite.items()}
