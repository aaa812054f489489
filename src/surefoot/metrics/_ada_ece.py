"""Expected calibration error in equal-mass bins."""

from torch import Tensor

from surefoot.metrics._ece import mean_absolute_gap
from surefoot.metrics.bins import equal_mass, top_label_sums
from surefoot.predictions import Predictions


def ada_ece(predictions: Predictions, *, num_bins: int = 15) -> Tensor:
    r"""ECE of the top label in bins that hold the same number of samples each, tied confidences in one bin.

    Range [0, 1], 0 is calibrated. Mukhoti et al. 2020. O(N log N).
    """
    return mean_absolute_gap(top_label_sums(predictions, num_bins=num_bins, bins=equal_mass))
