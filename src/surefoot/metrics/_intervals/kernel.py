"""Intervals of kernel calibration errors."""

import torch
from torch import Tensor

from surefoot.metrics._intervals._interval import Interval, IntervalOf, IntervalOptions, normal_quantile
from surefoot.metrics._intervals._inversion import invert
from surefoot.metrics._intervals.binned import residual_variances
from surefoot.metrics._kce import kce
from surefoot.metrics._skce import median_width, pair_rows, skce
from surefoot.metrics._sm_ece import spread
from surefoot.metrics.bins import equal_width
from surefoot.predictions import Predictions

_CELLS = 512


def kernel_interval(nu: float) -> IntervalOf:
    """The interval of `kce` with this width, in worlds whose mean embedding of the gaps is a multiple of the one seen.

    The kernel is smooth against the cells of a grid, on which the noise of the gaps is drawn.
    """

    def interval(predictions: Predictions, options: IntervalOptions) -> Interval:
        value = kce(predictions, nu=nu)
        n = predictions.num_samples
        confidence = predictions.confidence
        gap = spread(confidence, (predictions.correct.double() - confidence) / n, cells=_CELLS)
        place = equal_width(confidence, num_bins=options.num_bins)
        shown, implied = (
            spread(confidence, variance, cells=_CELLS) / n**2
            for variance in residual_variances(predictions, place, num_bins=options.num_bins)
        )
        noise = implied.sqrt() * options.normals(options.num_replicates, _CELLS + 1, like=gap)
        at = torch.arange(_CELLS + 1, dtype=torch.float64, device=gap.device) / _CELLS
        kernel = (-(at[:, None] - at).abs() / nu).exp()
        pulled = noise @ kernel
        low, high = norm_limits(
            value,
            across=pulled @ gap,
            own=(pulled * noise).sum(dim=1),
            variance=(shown @ kernel.square() @ shown).sqrt(),
            options=options,
        )
        return options.interval(value, low, high, "normal embedding")

    return interval


kce_interval = kernel_interval(0.2)
mmce_interval = kernel_interval(0.4)


def skce_interval(predictions: Predictions, options: IntervalOptions) -> Interval:
    """The same for whole probability vectors, with the noise drawn per sample. O(N^2 (K + replicates))."""
    nu = median_width(predictions)
    n = predictions.num_samples
    draws = options.normals(n, options.num_replicates, like=predictions.logits)
    draws = (draws - draws.mean(dim=0)) / n
    across = draws.new_zeros(options.num_replicates)
    own = draws.new_zeros(options.num_replicates)
    total, square = draws.new_zeros(()), draws.new_zeros(())
    for part, pairs in pair_rows(predictions, nu):
        pulled = pairs @ draws
        across += pulled.sum(dim=0) / n
        own += (draws[part] * pulled).sum(dim=0)
        total += pairs.sum() / n**2
        square += pairs.square().sum() / n**4
    low, high = norm_limits(total.clamp(min=0).sqrt(), across=across, own=own, variance=square.sqrt(), options=options)
    return options.interval(skce(predictions, nu=nu), low**2, high**2, "normal embedding")


def norm_limits(
    observed: Tensor, *, across: Tensor, own: Tensor, variance: Tensor, options: IntervalOptions
) -> tuple[float, float]:
    """Limits of a norm |m| of which |m + noise| was observed, from <m, noise> and <noise, noise> of each draw.

    The upper limit is |m + noise| >= |m| + <m, noise> / |m|, whose noise has at most `variance`, a bound on that in any
    direction. Multiples of what was observed would not do: where noise has cancelled most of m, they point elsewhere.
    """
    size = float(observed)
    low, _ = invert(
        lambda x: (1 - x) * size,
        lambda x: (((1 - x) * size) ** 2 + 2 * (1 - x) * across + own).clamp(min=0).sqrt(),
        size * (1 - 1e-12),
        calibrated=1.0,
        farthest=0.0,
        options=options,
    )
    return low, size - normal_quantile(options.tail) * float(variance) ** 0.5
