"""Processor time, and how repeated measurements are summarised."""

import statistics
import time
from collections.abc import Callable, Sequence


def cpu_seconds(work: Callable[[], object]) -> float:
    """Processor seconds of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def median_and_range(values: Sequence[float], *, digits: int = 3) -> str:
    """The median with the least and the largest value.

    >>> median_and_range([1.0, 3.0, 2.0], digits=1)
    '2.0 (1.0 to 3.0)'
    """
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"
