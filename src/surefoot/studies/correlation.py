"""Pearson's r between a calibration error and a sharpness, along runs and over learning rates."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from surefoot.runs.folder import Row
from surefoot.runs.spec import RunSpec
from surefoot.table import Estimate

Pair = tuple[str, str, str]  # the split of the calibration error, the error, which sharpness
SHARPNESSES = {"train": "train/ggn_sharpness", "test": "test/ggn_sharpness", "batch": "train/batch_sharpness"}
FEWEST = 5  # observations under a correlation
PAIRS: tuple[Pair, ...] = (
    ("train", "ece", "train"),
    ("train", "kce", "train"),
    ("test", "ece", "test"),
    ("test", "kce", "test"),
    ("test", "ece", "train"),
    ("test", "kce", "train"),
    ("train", "ece", "batch"),
    ("train", "kce", "batch"),
    ("test", "ece", "batch"),
    ("test", "kce", "batch"),
)
NAMES = {"train": "GN, training set", "test": "GN, test set", "batch": "batch sharpness"}
SPACING = {"equal": "equally spaced", "log": "log-spaced"}


@dataclass(frozen=True)
class Trajectory:
    """One run as an analysis sees it."""

    spec: RunSpec
    rows: list[Row]
    _chosen: dict[tuple[str, str], list[Row]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def optimizer(self) -> str:
        """The optimizer's name."""
        return self.spec.optimizer.name

    @property
    def lr(self) -> float:
        """The learning rate."""
        return float(self.spec.optimizer.options.get("lr", math.nan))

    @property
    def interpolated(self) -> int | None:
        """The first observed step at which every training sample is classified right; None if there is none."""
        return next((int(row["step"] or 0) for row in self.rows if (row["train/margin_min"] or 0) > 0), None)

    def peak(self, key: str) -> Row:
        """The row of the largest observation of a quantity."""
        return max(self.rows, key=lambda row: row[key] or 0)

    def chosen(self, sampling: str, window: str) -> list[Row]:
        """The rows on the equally or the log-spaced grid, inside a window of the run; found once, asked for often."""
        if (sampling, window) not in self._chosen:
            self._chosen[sampling, window] = self._choose(sampling, window)
        return self._chosen[sampling, window]

    def _choose(self, sampling: str, window: str) -> list[Row]:
        on_grid = self.spec.schedule.equally_spaced if sampling == "equal" else self.spec.schedule.log_spaced
        low, high = self._bounds(window)
        return [row for row in self.rows if on_grid(int(row["step"] or 0)) and low <= (row["step"] or 0) <= high]

    def _bounds(self, window: str) -> tuple[float, float]:
        if window in ("before", "after"):
            reached = math.inf if self.interpolated is None else self.interpolated
            return (0, reached) if window == "before" else (reached, math.inf)
        last = self.rows[-1]["step"] or 0 if self.rows else 0
        share = 1.0 if window == "whole" else float(window.split()[1]) / 100
        return 0, share * last


@dataclass(frozen=True)
class Correlation:
    """r of one optimizer in one setting: mean and deviation over learning rates.

    Each learning rate counts once, as the mean over its seeds; `n` is the number of learning rates.
    """

    optimizer: str
    split: str
    error: str
    sharpness: str  # among SHARPNESSES: Gauss-Newton of a split, or batch sharpness
    sampling: str  # equal or log
    window: str
    mean: float | None
    std: float | None
    n: int
    num_runs: int
    by_lr: dict[str, float]

    @property
    def estimate(self) -> Estimate:
        """As it is printed."""
        return Estimate(self.mean, self.std, self.n)


Cells = dict[tuple[str, Pair, str, str], Correlation]  # by optimizer, pair, sampling, window


def correlation(
    runs: Sequence[Trajectory], optimizer: str, pair: Pair, *, sampling: str = "equal", window: str = "whole"
) -> Correlation:
    """The correlation of one optimizer's runs in one setting."""
    split, error, sharpness = pair
    by_lr: dict[float, list[float]] = {}
    for run in runs:
        if run.optimizer == optimizer:
            r = pearson(run.chosen(sampling, window), f"{split}/{error}", SHARPNESSES[sharpness])
            if r is not None:
                by_lr.setdefault(run.lr, []).append(r)
    means = {f"{lr:.6g}": sum(values) / len(values) for lr, values in sorted(by_lr.items())}
    over = Estimate.of(means.values())
    count = sum(len(values) for values in by_lr.values())
    return Correlation(optimizer, *pair, sampling, window, over.mean, over.std, over.n, count, means)


def pearson(rows: Sequence[Row], first: str, second: str) -> float | None:
    """Pearson's r of two quantities over rows; None where there are too few or one does not vary."""
    pairs = [(row.get(first), row.get(second)) for row in rows]
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    if len(known) < FEWEST:
        return None
    x, y = np.array(known, dtype=np.float64).T
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def t_interval(
    values: Sequence[float], *, level: float = 0.95, limits: tuple[float, float] | None = (-1.0, 1.0)
) -> tuple[float, float] | None:
    """Student's interval of the mean, cut to `limits` (those of a correlation); None for fewer than two values."""
    from scipy.special import stdtrit

    over = Estimate.of(values)
    if over.mean is None or over.std is None:
        return None
    half = float(stdtrit(over.n - 1, (1 + level) / 2)) * over.std / math.sqrt(over.n)
    low, high = limits or (-math.inf, math.inf)
    return max(over.mean - half, low), min(over.mean + half, high)


def with_interval(found: Correlation) -> str:
    """Mean and deviation over learning rates, and in brackets the interval of the mean."""
    interval = t_interval(list(found.by_lr.values()))
    return str(found.estimate) if interval is None else f"{found.estimate} [{interval[0]:.2f}, {interval[1]:.2f}]"


def verdict(intervals: Sequence[tuple[float, float] | None]) -> str:
    """What the intervals of a correlation, one per sampling of steps, say about the claim that it is positive."""
    known = [interval for interval in intervals if interval is not None]
    if len(known) == len(intervals) and all(low > 0 for low, _ in known):
        return "holds"
    if len(known) == len(intervals) and all(high < 0 for _, high in known):
        return "does not hold"
    return "cannot tell at this scale"


def judged(samplings: Sequence[Correlation]) -> tuple[str, str]:
    """What is measured over each sampling of steps, in words, and what all of them say of r > 0."""
    told = "; ".join(f"{SPACING[item.sampling]} steps: {with_interval(item)}" for item in samplings)
    return told, verdict([t_interval(list(item.by_lr.values())) for item in samplings])
