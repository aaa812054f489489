"""How a variant differs from the runs of plain gradient descent, with an interval."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from surefoot.studies.correlation import Trajectory
from surefoot.table import Estimate

BASELINE = "gd"
TINY = 1e-300  # under a logarithm, in place of 0


@dataclass(frozen=True)
class Difference:
    """A mean difference, its 95 % interval, and of how many values."""

    mean: float
    low: float
    high: float
    n: str  # pairs, or "runs and runs" where they are not paired

    def __str__(self) -> str:
        return f"{self.mean:+.3f} [{self.low:+.3f}, {self.high:+.3f}] (n={self.n})"

    @property
    def times(self) -> str:
        """Of logarithms: how many times as large."""
        mean, low, high = (math.exp(value) for value in (self.mean, self.low, self.high))
        return f"{mean:.3g} times [{low:.3g}, {high:.3g}] (n={self.n})"

    def __neg__(self) -> "Difference":
        return Difference(-self.mean, -self.high, -self.low, self.n)


def difference(
    runs: Sequence[Trajectory],
    variant: str,
    of: Callable[[Trajectory], float],
    *,
    logs: bool = False,
    baseline: str = BASELINE,
) -> Difference | None:
    """Paired, where the baseline has a run of the same learning rate and seed for each; else of two groups.

    With `logs` of the logarithms. None where a group has fewer than two values.
    """
    kinds: list[dict[tuple[float, int], float]] = []
    for name in (variant, baseline):
        own = {(run.lr, run.spec.seed): of(run) for run in runs if run.spec.variant == name}
        kinds.append({key: math.log(max(value, TINY)) if logs else value for key, value in own.items()})
    ours, plain = kinds
    if ours.keys() <= plain.keys():
        found = welch(Estimate.of(ours[key] - plain[key] for key in ours), Estimate(0.0, 0.0, len(plain)))
        return None if found is None else Difference(*found, f"{len(ours)}")
    found = welch(Estimate.of(ours.values()), Estimate.of(plain.values()))
    return None if found is None else Difference(*found, f"{len(ours)} and {len(plain)}")


def welch(first: Estimate, second: Estimate, *, level: float = 0.95) -> tuple[float, float, float] | None:
    """The difference of two means and its interval by Welch; None where a group has fewer than two values."""
    from scipy.special import stdtrit

    if first.mean is None or first.std is None or second.mean is None or second.std is None:
        return None
    parts = [(item.std or 0.0) ** 2 / item.n for item in (first, second)]
    gap, error = first.mean - second.mean, math.sqrt(sum(parts))
    if error == 0:
        return gap, gap, gap
    both = zip(parts, (first, second), strict=True)
    freedom = sum(parts) ** 2 / sum(part**2 / (item.n - 1) for part, item in both if part > 0)
    half = float(stdtrit(freedom, (1 + level) / 2)) * error
    return gap, gap - half, gap + half
