"""Squared kernel calibration error of whole probability vectors."""

import math
from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from surefoot.predictions import Predictions
from surefoot.registry import unknown

Estimator = Literal["biased", "unbiased", "linear", "block"]
_ESTIMATORS = ("biased", "unbiased", "linear", "block")
_MOST_FOR_MEDIAN = 10_000


def skce(
    predictions: Predictions, *, estimator: Estimator = "unbiased", nu: float | None = None, block_size: int = 50
) -> Tensor:
    r"""Mean over pairs of exp(-TV(p_i, p_j) / nu) (e_{y_i} - p_i)^T (e_{y_j} - p_j), e_y one-hot.

    TV is half the l1 distance. 0 in expectation if and only if the whole probability vector is calibrated. Widmann et
    al. 2019. Without `nu` it is the median of TV over all N^2 pairs. Estimators, with their cost:

    - biased: all N^2 pairs, at least 0; O(N^2 K).
    - unbiased: all pairs i < j, may be negative; O(N^2 K).
    - linear: the pairs (1, 2), (3, 4), ... in the order given; O(N K). Depends on the order, as does
    - block: the unbiased estimator's mean over consecutive blocks of `block_size`; O(N K block_size).
    """
    if estimator in ("biased", "unbiased"):
        width = median_width(predictions) if nu is None else _checked(nu)
        n = predictions.num_samples
        total = torch.stack([pairs.sum() for _, pairs in pair_rows(predictions, width)]).sum()
        if estimator == "biased":
            return total / n**2
        _at_least(n, 2)
        return (total - _residual(predictions).square().sum()) / (n * (n - 1))  # the kernel is 1 on the diagonal
    if estimator not in _ESTIMATORS:
        raise unknown("estimator", estimator, _ESTIMATORS)
    return skce_blocks(predictions, nu=nu, block_size=2 if estimator == "linear" else block_size).mean()


def skce_blocks(predictions: Predictions, *, nu: float | None = None, block_size: int) -> Tensor:
    """The unbiased estimator on every whole block of consecutive samples: independent, with the SKCE as their mean."""
    if block_size < 2:
        raise ValueError(f"`block_size` must be at least 2, got {block_size}.")
    _at_least(predictions.num_samples, block_size)
    width = median_width(predictions) if nu is None else _checked(nu)
    number = predictions.num_samples // block_size
    used = predictions[: number * block_size]
    probabilities = used.probabilities.view(number, block_size, -1)
    residual = _residual(used).view(number, block_size, -1)
    pairs = _kernel(probabilities, probabilities, width) * (residual @ residual.mT)
    total = pairs.sum(dim=(1, 2)) - pairs.diagonal(dim1=1, dim2=2).sum(dim=1)
    return total / (block_size * (block_size - 1))  # [N // block_size]


def median_width(predictions: Predictions) -> float:
    """Median over all N^2 pairs, a sample with itself included, of the total variation between probabilities."""
    n = predictions.num_samples
    if n > _MOST_FOR_MEDIAN:
        raise ValueError(
            f"`nu` must be given for more than {_MOST_FOR_MEDIAN:,} samples, got {n:,}: the median of all pairs is "
            "too costly. That of some of the samples is usually near."
        )
    distance = torch.nn.functional.pdist(predictions.probabilities, p=1) / 2  # [N (N - 1) / 2]
    # sorted, the N^2 values are N zeros and then each of these twice
    ranks = [rank for rank in ((n * n - 1) // 2, n * n // 2)]  # from 0, the two middle ones
    values = [0.0 if rank < n else float(distance.kthvalue((rank - n) // 2 + 1).values) for rank in ranks]
    median = sum(values) / 2
    if median == 0:
        raise ValueError("`nu` must be given: the median distance between probabilities, its default, is 0.")
    return median


def pair_rows(predictions: Predictions, nu: float) -> Iterator[tuple[slice, Tensor]]:
    """The matrix of all pairs' values [N, N], some rows at a time."""
    probabilities, residual = predictions.probabilities, _residual(predictions)
    rows = max(1, 2**22 // predictions.num_samples)
    for start in range(0, predictions.num_samples, rows):
        part = slice(start, start + rows)
        yield part, _kernel(probabilities[part], probabilities, nu) * (residual[part] @ residual.T)


def probability_kernel(predictions: Predictions, *, nu: float) -> Tensor:
    """The kernel between all pairs of probability vectors, [N, N]."""
    return _kernel(predictions.probabilities, predictions.probabilities, nu)


def _kernel(left: Tensor, right: Tensor, nu: float) -> Tensor:
    return (torch.cdist(left, right, p=1) / (-2 * nu)).exp()


def _residual(predictions: Predictions) -> Tensor:
    probabilities = predictions.probabilities
    truth = torch.zeros_like(probabilities).scatter_(1, predictions.labels.long()[:, None], 1.0)
    return truth - probabilities  # [N, K]


def _checked(nu: float) -> float:
    if not (nu > 0 and math.isfinite(nu)):
        raise ValueError(f"`nu` must be positive and finite, got {nu}.")
    return nu


def _at_least(num_samples: int, needed: int) -> None:
    if num_samples < needed:
        raise ValueError(f"`predictions` must hold at least {needed} samples for this estimator, got {num_samples}.")
