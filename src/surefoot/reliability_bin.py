"""One bin of a reliability diagram, without torch."""

import math
from dataclasses import dataclass

from surefoot.proportion import wilson


@dataclass(frozen=True)
class ReliabilityBin:
    """Mean confidence and accuracy of the samples with a confidence in (left, right]; NaN where there are none."""

    left: float
    right: float
    count: int
    confidence: float
    accuracy: float
    low: float  # limits of the accuracy
    high: float

    @classmethod
    def of(
        cls, place: int, num_bins: int, *, count: int, confidence: float, accuracy: float, level: float = 0.95
    ) -> "ReliabilityBin":
        """Bin `place` (from 0) of `num_bins` bins of equal width, with Wilson's limits of its accuracy.

        Args:
            place: Which bin, from 0.
            num_bins: How many bins [0, 1] is cut into.
            count: Number of samples in the bin; where it is 0, confidence and accuracy are left out.
            confidence: Their mean confidence.
            accuracy: The share of them that is right.
            level: Confidence level of the limits.

        >>> each = ReliabilityBin.of(1, 2, count=4, confidence=0.8, accuracy=0.75)
        >>> each.left, each.right, round(each.low, 3), round(each.high, 3)
        (0.5, 1.0, 0.301, 0.954)
        """
        left, right = place / num_bins, (place + 1) / num_bins
        if not count:
            return cls(left, right, 0, math.nan, math.nan, math.nan, math.nan)
        low, high = wilson(accuracy, count, tail=(1 - level) / 2)
        return cls(left, right, count, confidence, accuracy, low, high)

    def record(self) -> dict[str, float | None]:
        """As JSON can hold it; what is not a number is null."""
        return {name: None if math.isnan(value) else value for name, value in vars(self).items()}
