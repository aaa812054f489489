"""The bins of confidence that the observer `reliability` leaves in a run's rows."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from surefoot.proportion import wilson

_TAIL = 0.025  # on each side of an interval


@dataclass(frozen=True)
class StoredBin:
    """One of `num_bins` bins of equal width, with samples in it."""

    place: int  # from 0
    num_bins: int
    count: int
    confidence: float
    num_right: int

    @property
    def left(self) -> float:
        """The confidence where it begins."""
        return self.place / self.num_bins

    @property
    def right(self) -> float:
        """The confidence where it ends."""
        return (self.place + 1) / self.num_bins

    @property
    def accuracy(self) -> float:
        """The share of its samples that are right."""
        return self.num_right / self.count

    @property
    def low(self) -> float:
        """The lower end of the accuracy's 95 % interval (Wilson)."""
        return wilson(self.accuracy, self.count, tail=_TAIL)[0]

    @property
    def high(self) -> float:
        """The upper end of it."""
        return wilson(self.accuracy, self.count, tail=_TAIL)[1]


def num_bins(observation: Mapping[str, Any], *, split: str = "test") -> int:
    """How many bins the run was observed with; 0 if it was not."""
    return sum(key.startswith(f"{split}/bin_") and key.endswith("_count") for key in observation)


def stored_bins(observation: Mapping[str, float], split: str) -> list[StoredBin]:
    """The bins of a split that hold samples; none if they were not observed.

    >>> row = {"test/bin_01_count": 0, "test/bin_02_count": 4, "test/bin_02_confidence": 0.8, "test/bin_02_right": 3}
    >>> [(bin.left, bin.right, bin.count, bin.accuracy) for bin in stored_bins(row, "test")]
    [(0.5, 1.0, 4, 0.75)]
    """
    number = num_bins(observation, split=split)
    bins = []
    for k in range(number):
        keys = (f"{split}/bin_{k + 1:02d}_{name}" for name in ("count", "confidence", "right"))
        count, confidence, num_right = (observation.get(key, math.nan) for key in keys)
        if count > 0 and math.isfinite(confidence) and math.isfinite(num_right):
            bins.append(StoredBin(k, number, int(count), confidence, int(num_right)))
    return bins
