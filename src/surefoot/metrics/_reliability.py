"""The numbers of a reliability diagram."""

from dataclasses import dataclass

from surefoot.metrics.bins import top_label_sums
from surefoot.metrics.intervals.interval import Options
from surefoot.metrics.intervals.means import wilson
from surefoot.predictions import Predictions


@dataclass(frozen=True)
class ReliabilityBin:
    """What the samples with a confidence in (left, right] came to; None where there are none."""

    left: float
    right: float
    count: int
    confidence: float | None
    accuracy: float | None
    low: float | None  # limits of the accuracy
    high: float | None


def reliability(predictions: Predictions, *, num_bins: int = 15, level: float = 0.95) -> tuple[ReliabilityBin, ...]:
    """Count, mean confidence and accuracy with its Wilson interval, per equal-width bin of the confidence."""
    sums = top_label_sums(predictions, num_bins=num_bins)
    count = sums.count.clamp(min=1)
    confidence, accuracy = sums.score / count, sums.hit / count
    low, high = wilson(accuracy, count, tail=Options(level=level).tail)
    columns = (part.tolist() for part in (sums.count, confidence, accuracy, low, high))
    return tuple(
        ReliabilityBin(k / num_bins, (k + 1) / num_bins, int(number), *(values if number else [None] * 4))
        for k, (number, *values) in enumerate(zip(*columns, strict=True))
    )
