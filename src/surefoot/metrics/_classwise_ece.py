"""Classwise expected calibration error."""

from torch import Tensor

from surefoot.metrics._ece import mean_absolute_gap
from surefoot.metrics.bins import classwise_sums
from surefoot.predictions import Predictions


def classwise_ece(predictions: Predictions, *, num_bins: int = 15) -> Tensor:
    r"""Mean over classes k of sum_b n_bk/N |frequency of k in bin b - mean p_k in bin b|, bins of p_k.

    Equal-width bins (a, b]. Range [0, 2/K], 0 is calibrated; small for many classes, because most probabilities are.
    Kull et al. 2019.
    """
    return mean_absolute_gap(classwise_sums(predictions, num_bins=num_bins)).mean()
