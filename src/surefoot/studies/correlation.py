"""Pearson's r between a calibration error and a sharpness, along runs and over learning rates."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from surefoot.runs.trajectory import Sampling, Trajectory
from surefoot.studies.claim import Claim, Verdict
from surefoot.studies.intervals import t_interval
from surefoot.table import Estimate

Pair = tuple[str, str, str]  # the split of the calibration error, the error, which sharpness
SHARPNESSES = {"train": "train/ggn_sharpness", "test": "test/ggn_sharpness", "batch": "train/batch_sharpness"}
FEWEST = 5  # observations under a correlation
_MEASURED = (("train", "train"), ("test", "test"), ("test", "train"), ("train", "batch"), ("test", "batch"))
PAIRS: tuple[Pair, ...] = tuple((split, error, of) for (split, of), error in product(_MEASURED, ("ece", "kce")))
NAMES = {"train": "GN, training set", "test": "GN, test set", "batch": "batch sharpness"}
SPACING: dict[Sampling, str] = {"equal": "equally spaced", "log": "log-spaced"}
_LIMITS = (-1.0, 1.0)


@dataclass(frozen=True)
class Correlation:
    """r of one optimizer in one setting: mean and deviation over learning rates.

    Each learning rate counts once, as the mean over its seeds; `n` is the number of learning rates.
    """

    optimizer: str
    split: str
    error: str
    sharpness: str  # among SHARPNESSES: Gauss-Newton of a split, or batch sharpness
    sampling: Sampling
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

    @property
    def interval(self) -> tuple[float, float] | None:
        """Student's 95 % interval of the mean over learning rates, cut to [-1, 1]; None for fewer than two."""
        return t_interval(list(self.by_lr.values()), limits=_LIMITS)

    def __str__(self) -> str:
        """Mean and deviation over learning rates, and in brackets the interval of the mean."""
        interval = self.interval
        return f"{self.estimate}" + ("" if interval is None else f" [{interval[0]:.2f}, {interval[1]:.2f}]")


Cells = dict[tuple[str, Pair, Sampling, str], Correlation]  # by optimizer, pair, sampling, window


def correlation_of(
    runs: Sequence[Trajectory], optimizer: str, pair: Pair, *, sampling: Sampling = "equal", window: str = "whole"
) -> Correlation:
    """The correlation of one optimizer's runs in one setting."""
    split, error, sharpness = pair
    by_lr: dict[float, list[float]] = {}
    for run in runs:
        if run.optimizer == optimizer:
            r = pearson(run.window(sampling, window), f"{split}/{error}", SHARPNESSES[sharpness])
            if r is not None:
                by_lr.setdefault(run.lr, []).append(r)
    means = {f"{lr:.6g}": sum(values) / len(values) for lr, values in sorted(by_lr.items())}
    over = Estimate.of(means.values())
    count = sum(len(values) for values in by_lr.values())
    return Correlation(optimizer, *pair, sampling, window, over.mean, over.std, over.n, count, means)


def pearson(run: Trajectory, first: str, second: str) -> float | None:
    """Pearson's r of two quantities over the steps that have both; None where these are few or one does not vary."""
    return r_of(*(column.tolist() for column in run.measured(first, second)), fewest=FEWEST)


def spearman(run: Trajectory, first: str, second: str) -> float | None:
    """Spearman's rank correlation, likewise."""
    return r_of(*(ranks(column.tolist()) for column in run.measured(first, second)), fewest=FEWEST)


def r_of(first: Sequence[float], second: Sequence[float], *, fewest: int = 2) -> float | None:
    """Pearson's r of paired values; None for fewer than `fewest`, and where one side does not vary.

    >>> r_of([1, 2, 3], [2, 4, 6]), r_of([1, 1, 1], [2, 4, 6])
    (1.0, None)
    """
    if len(first) < fewest or min(first) == max(first) or min(second) == max(second):
        return None
    return float(np.corrcoef(first, second)[0, 1])


def ranks(values: Sequence[float]) -> list[float]:
    """The place of each value in order, from 1; equal ones share theirs.

    >>> ranks([5.0, 1.0, 5.0])
    [2.5, 1.0, 2.5]
    """
    _, place, count = np.unique(np.array(values), return_inverse=True, return_counts=True)
    shared = count.cumsum() - (count - 1) / 2
    places: list[float] = shared[place].tolist()
    return places


def positive(samplings: Sequence[Correlation]) -> Verdict:
    """What the intervals of a correlation, one per sampling of steps, say about the claim that it is positive."""
    return all_above_zero([item.interval for item in samplings])


def all_above_zero(intervals: Sequence[tuple[float, float] | None]) -> Verdict:
    """Reproduced where all intervals lie above 0, not seen where all lie below, inconclusive otherwise.

    >>> str(all_above_zero([(0.1, 0.9), (0.2, 0.8)])), str(all_above_zero([(0.1, 0.9), None]))
    ('reproduced', 'inconclusive')
    """
    decided = [interval for interval in intervals if interval is not None]
    if len(decided) < len(intervals):
        return Verdict.INCONCLUSIVE
    if all(low > 0 for low, _ in decided):
        return Verdict.REPRODUCED
    return Verdict.NOT_SEEN if all(high < 0 for _, high in decided) else Verdict.INCONCLUSIVE


def correlation_claim(id: str, statement: str, samplings: Sequence[Correlation], *, verdict: Verdict) -> Claim:
    """A claim about a correlation, with its numbers over the first sampling of steps, and all of them as text.

    Args:
        id: The claim's id.
        statement: What is claimed.
        samplings: The correlation over each sampling of steps that the claim is judged by.
        verdict: What these say, as by `positive`.
    """
    low, high = samplings[0].interval or (None, None)
    return Claim(
        id=id,
        statement=statement,
        verdict=verdict,
        estimate=samplings[0].mean,
        low=low,
        high=high,
        n=(samplings[0].n,),
        unit="learning rates",
        measured="; ".join(f"{SPACING[item.sampling]} steps: {item}" for item in samplings),
    )
