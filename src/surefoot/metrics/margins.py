"""The distribution of the true margin, and the exponential moment that bounds calibration and curvature."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from surefoot.predictions import Predictions


def mean_margin(predictions: Predictions) -> Tensor:
    """Mean of the true margin z_y - max_{j != y} z_j. Larger is better separated."""
    return predictions.margin.mean()


def min_margin(predictions: Predictions) -> Tensor:
    """Smallest true margin; positive when every sample is classified right and no two logits tie (interpolation)."""
    return predictions.margin.min()


def margin_quantiles(predictions: Predictions, *, levels: Sequence[float]) -> Tensor:
    """Quantiles of the true margin at `levels`, with linear interpolation between order statistics."""
    if not all(0 <= level <= 1 for level in levels):
        raise ValueError(f"`levels` must lie in [0, 1], got {list(levels)}.")
    margin = predictions.margin.sort().values  # torch.quantile refuses more than 16 million samples
    at = torch.tensor(levels, dtype=torch.float64, device=margin.device) * (len(margin) - 1)
    low = at.floor().long()
    high = at.ceil().long()
    return margin[low] + (at - low) * (margin[high] - margin[low])


def log_margin_moment(predictions: Predictions) -> Tensor:
    r"""Log of the exponential margin moment Q = mean exp(-m).

    The functional that bounds both ECE, by (K-1) Q, and Gauss-Newton sharpness, by 2 C_J^2 (K-1) Q. In the log domain,
    because margins of -50 are normal early in training. Lower is better; 0 at all-equal logits.
    """
    return (-predictions.margin).logsumexp(dim=0) - math.log(predictions.num_samples)
