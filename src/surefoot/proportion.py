"""Confidence limits of a proportion, without torch."""

import math
from statistics import NormalDist


def wilson(share: float, count: float, *, tail: float) -> tuple[float, float]:
    """Wilson's limits of a proportion, good for few samples and near 0 and 1 too; 0 and 1 where there is no sample.

    Args:
        share: The proportion among the samples.
        count: The number of samples.
        tail: The probability that is left out on each side, 0.025 for a 95 % interval.

    >>> [round(limit, 4) for limit in wilson(0.8, 1000, tail=0.025)]
    [0.7741, 0.8236]
    """
    z2 = NormalDist().inv_cdf(tail) ** 2
    middle = (share * count + z2 / 2) / (count + z2)
    reach = math.sqrt(max(0.0, z2 * (share * (1 - share) * count + z2 / 4))) / (count + z2)
    return max(0.0, middle - reach), min(1.0, middle + reach)
