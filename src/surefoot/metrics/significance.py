"""Is this miscalibration, or noise? Tests of the hypothesis that predictions are calibrated."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from surefoot.metrics._ece import mean_absolute_gap
from surefoot.metrics._skce import median_width, pair_rows, probability_kernel, skce, skce_blocks
from surefoot.metrics.bins import equal_width, top_label_sums
from surefoot.predictions import Predictions
from surefoot.registry import unknown

_EXACT_UP_TO = 20_000  # samples; beyond it the sums of bins are normal for all that matters
_METHODS = ("consistency", "multiplier", "block")


@dataclass(frozen=True)
class Significance:
    """How surprising a statistic is if the predictions are calibrated: a small p-value speaks against it."""

    statistic: float
    p_value: float
    method: str


def ece_test(predictions: Predictions, *, num_bins: int = 15, num_draws: int = 1000, seed: int = 0) -> Significance:
    """Is the ECE distinguishable from a perfectly calibrated classifier's with the same confidences?

    Consistency resampling: correctness is drawn again from the confidences, and the p-value is the share of draws, the
    sample itself counted in, whose ECE is as large. Above 20,000 samples the bins' sums are drawn, as normal.
    Broecker and Smith 2007, Vaicenavicius et al. 2019.
    """
    _check_draws(num_draws)
    confidence = predictions.confidence
    n = predictions.num_samples
    observed = mean_absolute_gap(top_label_sums(predictions, num_bins=num_bins))
    bins = equal_width(confidence, num_bins=num_bins)
    generator = torch.Generator().manual_seed(seed)
    if n > _EXACT_UP_TO:
        variance = torch.bincount(bins, weights=confidence * (1 - confidence), minlength=num_bins)
        noise = torch.randn(num_draws, num_bins, generator=generator, dtype=torch.float64).to(confidence.device)
        drawn = (noise * variance.sqrt()).abs().sum(dim=1) / n
        return _significance(observed, drawn, "consistency resampling of normal bin sums")
    rows = max(1, 2**22 // n)
    replicates = []
    for start in range(0, num_draws, rows):
        number = min(rows, num_draws - start)
        luck = torch.rand(number, n, generator=generator, dtype=torch.float64).to(confidence.device)
        gap = confidence - (luck < confidence).double()
        place = bins + num_bins * torch.arange(number, device=bins.device)[:, None]
        sums = torch.bincount(place.flatten(), weights=gap.flatten(), minlength=number * num_bins)
        replicates.append(sums.view(number, num_bins).abs().sum(dim=1) / n)
    return _significance(observed, torch.cat(replicates), "consistency resampling")


def skce_test(
    predictions: Predictions,
    *,
    method: Literal["consistency", "multiplier", "block"] = "consistency",
    nu: float | None = None,
    num_draws: int = 1000,
    block_size: int = 2,
    seed: int = 0,
) -> Significance:
    """Are the whole probability vectors calibrated? A test on the unbiased squared kernel calibration error.

    - consistency: labels drawn again from the probabilities; exact at every N. O(N^2 K draws).
    - multiplier: each sample's residual times a random sign, which leaves its mean 0 under calibration; right for
      large N. O(N^2 (K + draws)).
    - block: the blocks' mean against its standard error, normal; right for many blocks. With `block_size` 2 it is the
      linear test, cheap and weak. O(N K block_size).
    """
    if method not in _METHODS:
        raise unknown("method", method, _METHODS)
    _check_draws(num_draws)
    n = predictions.num_samples
    width = median_width(predictions) if nu is None else nu
    if method == "block":
        values = skce_blocks(predictions, nu=width, block_size=block_size)
        if len(values) < 2:
            raise ValueError(f"`predictions` must hold at least 2 blocks of {block_size} samples, got {n} samples.")
        score = values.mean() / (values.std() / len(values) ** 0.5)
        return Significance(float(values.mean()), float(torch.special.ndtr(-score)), f"normal, blocks of {block_size}")
    observed = skce(predictions, estimator="unbiased", nu=width)
    generator = torch.Generator().manual_seed(seed)
    device = predictions.logits.device
    if method == "multiplier":
        sign = torch.randint(0, 2, (n, num_draws), generator=generator).to(device, torch.float64) * 2 - 1
        drawn = torch.zeros(num_draws, dtype=torch.float64, device=device)
        for part, pairs in pair_rows(predictions, width):
            drawn += (sign[part] * (pairs @ sign)).sum(dim=0) - pairs.diagonal(part.start).sum()
        return _significance(observed, drawn / (n * (n - 1)), "random signs")
    probabilities = predictions.probabilities
    kernel = probability_kernel(predictions, nu=width)
    replicates = []
    for _ in range(num_draws):
        labels = torch.multinomial(probabilities.cpu(), 1, generator=generator).to(device)
        residual = torch.zeros_like(probabilities).scatter_(1, labels, 1.0) - probabilities
        total = (residual * (kernel @ residual)).sum() - residual.square().sum()
        replicates.append(total / (n * (n - 1)))
    return _significance(observed, torch.stack(replicates), "consistency resampling")


def _significance(observed: Tensor, drawn: Tensor, method: str) -> Significance:
    as_large = int((drawn >= observed - 1e-9 * observed.abs()).sum())  # equal but for rounding is as large
    return Significance(float(observed), (1 + as_large) / (1 + len(drawn)), method)


def _check_draws(num_draws: int) -> None:
    if num_draws < 1:
        raise ValueError(f"`num_draws` must be at least 1, got {num_draws}.")
