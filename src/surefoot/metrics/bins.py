"""Samples sorted into bins by a score, and the sums per bin from which binned calibration errors follow."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.argument_error import ArgumentError
from surefoot.predictions import Predictions


@dataclass(frozen=True, eq=False)
class BinSums:
    """Sums over the samples of each bin, in float64, so that they add up the same however samples were split."""

    count: Tensor  # [..., M]
    score: Tensor  # [..., M], of the scores: confidences or class probabilities
    hit: Tensor  # [..., M], of what the score predicts: 0 or 1
    num_samples: int  # N, over all bins of a row

    @property
    def gap(self) -> Tensor:
        """Per bin, the sum of score - hit over N: positive where overconfident."""
        return (self.score - self.hit) / self.num_samples

    @property
    def weight(self) -> Tensor:
        """Per bin, its share of the samples."""
        return self.count / self.num_samples

    @property
    def mean_gap(self) -> Tensor:
        """Per bin, mean score - mean hit; 0 in an empty bin."""
        return (self.score - self.hit) / self.count.clamp(min=1)

    @classmethod
    def of(cls, scores: Tensor, hits: Tensor, bins: Tensor, *, num_bins: int) -> "BinSums":
        """Sums of N samples by the bin that each is in."""
        return cls(
            count=torch.bincount(bins, minlength=num_bins).double(),
            score=torch.bincount(bins, weights=scores, minlength=num_bins),
            hit=torch.bincount(bins, weights=hits.double(), minlength=num_bins),
            num_samples=len(scores),
        )


def equal_width(scores: Tensor, *, num_bins: int) -> Tensor:
    """The bin of each score among `num_bins` equal parts (a, b] of [0, 1], the first closed at 0.

    >>> equal_width(torch.tensor([0.0, 0.2, 0.21, 1.0], dtype=torch.float64), num_bins=5).tolist()
    [0, 0, 1, 4]
    """
    check_num_bins(num_bins)
    edges = torch.arange(1, num_bins, dtype=torch.float64, device=scores.device) / num_bins
    return torch.bucketize(scores.contiguous(), edges)  # an edge belongs to the bin below it


def equal_mass(scores: Tensor, *, num_bins: int) -> Tensor:
    """The bin of each score among `num_bins` parts with the same number of samples, as far as ties allow.

    The edges are order statistics and belong to the bin below, so that tied scores are always in one bin and the
    order of samples cannot matter.

    >>> equal_mass(torch.tensor([0.9, 0.7, 0.7, 0.5], dtype=torch.float64), num_bins=2).tolist()
    [1, 0, 0, 0]
    """
    check_num_bins(num_bins)
    ordered = scores.sort().values
    ranks = (torch.arange(1, num_bins, device=scores.device) * len(scores) + num_bins - 1) // num_bins
    return torch.bucketize(scores, ordered[ranks - 1])


def top_label_sums(predictions: Predictions, *, num_bins: int, bins: Callable[..., Tensor] = equal_width) -> BinSums:
    """Confidence against correctness, by bins of the confidence."""
    confidence = predictions.confidence
    return BinSums.of(confidence, predictions.correct, bins(confidence, num_bins=num_bins), num_bins=num_bins)


def classwise_sums(
    predictions: Predictions, *, num_bins: int, group: Tensor | None = None, num_groups: int = 1
) -> BinSums:
    """Probability of each class against its frequency, by equal-width bins of that probability, [K, M].

    With `group` [N], the same for each group of samples, [G, K, M], as shares of all N. A row of probabilities has
    fewer than M entries above 1/M, so only those few are sorted into bins one by one; the lowest bin is what remains
    of the totals.
    """
    check_num_bins(num_bins)
    num_classes, device = predictions.num_classes, predictions.logits.device
    shape = (num_groups, num_classes, num_bins)
    if group is None:
        group = torch.zeros(predictions.num_samples, dtype=torch.int64, device=device)
    count, score, hit = (torch.zeros(math.prod(shape), dtype=torch.float64, device=device) for _ in range(3))
    total = torch.zeros(shape[:2], dtype=torch.float64, device=device)
    start = 0
    for block in predictions.blocks():
        probabilities = block.probabilities
        of = group[start : start + block.num_samples]
        start += block.num_samples
        if num_groups == 1:
            total[0] += probabilities.sum(dim=0)
        else:
            total.index_add_(0, of, probabilities)
        row, label = (probabilities > 1 / num_bins).nonzero(as_tuple=True)
        above = probabilities[row, label]
        place = (of[row] * num_classes + label) * num_bins + equal_width(above, num_bins=num_bins)
        for sums, weights in ((count, torch.ones_like(above)), (score, above), (hit, block.labels[row] == label)):
            sums.index_add_(0, place, weights.double())
    count, score, hit = (part.view(shape) for part in (count, score, hit))
    labels = torch.bincount(group * num_classes + predictions.labels, minlength=num_groups * num_classes)
    count[..., 0] += torch.bincount(group, minlength=num_groups)[:, None] - count.sum(dim=-1)
    score[..., 0] += total - score.sum(dim=-1)
    hit[..., 0] += labels.view(shape[:2]) - hit.sum(dim=-1)
    if num_groups == 1:
        count, score, hit = count[0], score[0], hit[0]
    return BinSums(count, score, hit, predictions.num_samples)


def check_num_bins(num_bins: int) -> None:
    """Raise ValueError unless there is at least one bin."""
    if num_bins < 1:
        raise ArgumentError(f"`num_bins` must be at least 1, got {num_bins}.", "num_bins")
