"""Kernel calibration error of the top label."""

from torch import Tensor

from surefoot.kernel import laplacian_pair_sum
from surefoot.predictions import Predictions


def kce(predictions: Predictions, *, nu: float = 0.2) -> Tensor:
    r"""Root mean of r_i r_j exp(-|c_i - c_j| / nu) over all pairs, r = correct - confidence, c = confidence.

    The biased estimator, without bins. Range [0, 1], 0 is calibrated. O(N log N). The same with nu = 0.4 is MMCE
    (Kumar et al. 2018). "KCE" has no agreed definition for the top label: this one, with nu = 0.2, is ours.
    """
    gap = predictions.correct.double() - predictions.confidence
    total = laplacian_pair_sum(predictions.confidence, gap, nu=nu)
    return total.clamp(min=0).sqrt() / predictions.num_samples  # the kernel is positive definite: only rounding is cut


def mmce(predictions: Predictions) -> Tensor:
    """Maximum mean calibration error: `kce` with the kernel width 0.4 of its authors. Kumar et al. 2018."""
    return kce(predictions, nu=0.4)
