"""The numbers of a reliability diagram."""

from surefoot.metrics._intervals._interval import IntervalOptions
from surefoot.metrics.bins import top_label_sums
from surefoot.predictions import Predictions
from surefoot.reliability_bin import ReliabilityBin


def reliability(predictions: Predictions, *, num_bins: int = 15, level: float = 0.95) -> tuple[ReliabilityBin, ...]:
    """Count, mean confidence and accuracy with its Wilson interval, per equal-width bin of the confidence."""
    IntervalOptions(level=level, num_bins=num_bins)  # checks them
    sums = top_label_sums(predictions, num_bins=num_bins)
    count = sums.count.clamp(min=1)
    columns = (part.tolist() for part in (sums.count, sums.score / count, sums.hit / count))
    return tuple(
        ReliabilityBin.of(k, num_bins, count=int(number), confidence=confidence, accuracy=accuracy, level=level)
        for k, (number, confidence, accuracy) in enumerate(zip(*columns, strict=True))
    )
