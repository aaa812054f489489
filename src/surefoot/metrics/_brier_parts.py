"""The parts of the Brier score."""

from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.metrics._ece import mean_square_gap
from surefoot.metrics.bins import BinSums, classwise_sums
from surefoot.metrics.scores import brier
from surefoot.predictions import Predictions


@dataclass(frozen=True)
class BrierParts:
    """Brier score = reliability - resolution + uncertainty + within, all summed over classes.

    `within` is what bins hide: how probabilities vary inside a bin, less twice how that variation goes along with the
    truth. It vanishes for probabilities that are constant in each bin.
    """

    reliability: Tensor  # squared gaps between probability and frequency: miscalibration, smaller is better
    resolution: Tensor  # how far the frequencies of the bins are from the base rates: larger is better
    uncertainty: Tensor  # of the labels themselves, out of the classifier's hands
    within: Tensor


def brier_parts(predictions: Predictions, *, num_bins: int = 15) -> BrierParts:
    """Murphy's decomposition of the Brier score, per class in equal-width bins of its probability."""
    sums = classwise_sums(predictions, num_bins=num_bins)
    reliability, resolution, uncertainty = parts_of(sums)
    whole = brier(predictions)
    return BrierParts(reliability, resolution, uncertainty, whole - reliability + resolution - uncertainty)


def parts_of(sums: BinSums) -> tuple[Tensor, Tensor, Tensor]:
    """Reliability, resolution and uncertainty of classwise bin sums."""
    base = sums.hit.sum(dim=1, keepdim=True) / sums.num_samples  # [K, 1]
    frequency = sums.hit / sums.count.clamp(min=1)
    resolution = torch.where(sums.count > 0, sums.weight * (frequency - base).square(), 0.0)
    return mean_square_gap(sums).sum(), resolution.sum(), (base * (1 - base)).sum()
