"""The bins of confidence that the observer `reliability` leaves in a run's rows."""

import math
from collections.abc import Mapping
from typing import Any

from surefoot.reliability_bin import ReliabilityBin


def num_bins(observation: Mapping[str, Any], *, split: str = "test") -> int:
    """How many bins the run was observed with; 0 if it was not."""
    return sum(key.startswith(f"{split}/bin_") and key.endswith("_count") for key in observation)


def stored_bins(observation: Mapping[str, float], split: str) -> list[ReliabilityBin]:
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
            accuracy = num_right / count
            bins.append(ReliabilityBin.of(k, number, count=int(count), confidence=confidence, accuracy=accuracy))
    return bins
