"""Expected calibration error."""

import torch
from torch import Tensor

from surefoot.predictions import Predictions


def ece(predictions: Predictions, *, num_bins: int = 15) -> Tensor:
    r"""Mean gap between confidence and accuracy, sum_b n_b/N |acc_b - conf_b|.

    Equal-width bins (a, b], the first closed at 0; empty bins add nothing. Range [0, 1], 0 is calibrated.
    Guo et al. 2017.

    >>> p = Predictions(torch.tensor([[0.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 0]))
    >>> ece(p).item()  # half sure, always right
    0.5
    """
    if num_bins < 1:
        raise ValueError(f"`num_bins` must be at least 1, got {num_bins}.")
    confidence = predictions.confidence
    edges = torch.arange(1, num_bins, dtype=torch.float64, device=confidence.device) / num_bins
    bins = torch.bucketize(confidence, edges)  # (a, b]: an edge belongs to the bin below it
    gaps = confidence.new_zeros(num_bins).index_add(0, bins, confidence - predictions.correct.double())
    return gaps.abs().sum() / predictions.num_samples
