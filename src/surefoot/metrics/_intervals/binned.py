"""Intervals of binned calibration errors, from sums per bin.

The gap of each bin is nearly normal, with a deviation that is known well. The errors are not: the absolute value of a
gap that is only noise is above zero, so that plug-in estimates are too large, and the bootstrap, which doubles the
noise, is off twice. Here samples are drawn in worlds where all gaps are shrunk towards 0 by a number of their
deviations, or grown, and those worlds are kept in which the estimate is no surprise.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.metrics._ece import debiased_rms_ce
from surefoot.metrics._intervals._interval import Interval, IntervalOptions
from surefoot.metrics._intervals._inversion import invert
from surefoot.metrics.bins import BinSums, classwise_sums, equal_mass, equal_width, top_label_sums
from surefoot.predictions import Predictions
from surefoot.proportion import wilson

_NUM_GROUPS = 200
_FARTHEST = -20.0  # deviations beyond what was observed

Functional = Callable[[Tensor], Tensor]  # of gaps [..., J]


@dataclass(frozen=True, eq=False)
class Noise:
    """How gaps [J] vary from sample to sample: draws of unit deviation, and two deviations to scale them with.

    The one that shows in the sample is no good where few errors were seen: none in 500 does not prove that there are
    none. So it is at least that of a share with two hits and two misses more; and for worlds that are nearly
    calibrated, at least what calibration implies.
    """

    draws: Tensor  # [R, J]
    error: Tensor  # [J]
    if_calibrated: Tensor  # [J], at least `error`


def ece_interval(predictions: Predictions, options: IntervalOptions) -> Interval:
    """Of the ECE."""
    return _top_label(predictions, options, lambda sums: lambda gap: gap.abs().sum(dim=-1))


def ada_ece_interval(predictions: Predictions, options: IntervalOptions) -> Interval:
    """Of the ECE in equal-mass bins."""
    return _top_label(predictions, options, lambda sums: lambda gap: gap.abs().sum(dim=-1), bins=equal_mass)


def rms_ce_interval(predictions: Predictions, options: IntervalOptions) -> Interval:
    """Of the root mean squared error."""

    def functional(sums: BinSums) -> Functional:
        weight = sums.weight
        return lambda gap: torch.where(weight > 0, gap.square() / weight, 0.0).sum(dim=-1).sqrt()

    return _top_label(predictions, options, functional)


def debiased_rms_ce_interval(predictions: Predictions, options: IntervalOptions) -> Interval:
    """Of the same error as `rms_ce`, which the debiased estimate is another estimate of."""
    same = rms_ce_interval(predictions, options)
    value = debiased_rms_ce(predictions, num_bins=options.num_bins)
    return options.interval(value, same.low, same.high, same.method)


def oe_interval(predictions: Predictions, options: IntervalOptions) -> Interval:
    """Of the overconfidence error."""
    return _top_label(predictions, options, lambda sums: _one_sided(sums, 1), towards=1)


def ue_interval(predictions: Predictions, options: IntervalOptions) -> Interval:
    """Of the underconfidence error."""
    return _top_label(predictions, options, lambda sums: _one_sided(sums, -1), towards=-1)


def mce_interval(predictions: Predictions, options: IntervalOptions) -> Interval:
    """Of the maximum error over the bins that hold samples: limits of every bin's accuracy that hold together."""
    sums = top_label_sums(predictions, num_bins=options.num_bins)
    filled = sums.count > 0
    count, accuracy, confidence = (
        part[filled] for part in (sums.count, sums.hit / sums.count, sums.score / sums.count)
    )
    tail = options.tail / len(count)
    limits = [wilson(*each, tail=tail) for each in zip(accuracy.tolist(), count.tolist(), strict=True)]
    below, above = confidence.new_tensor(limits).unbind(dim=1)
    low = torch.maximum(confidence - above, below - confidence).clamp(min=0).amax()
    high = torch.maximum(confidence - below, above - confidence).amax()
    return options.interval((confidence - accuracy).abs().amax(), low, high, "simultaneous wilson")


def classwise_ece_interval(predictions: Predictions, options: IntervalOptions) -> Interval:
    """Of the classwise ECE: a sample adds to one bin of every class, and the noise is drawn with that in mind."""
    num_classes = predictions.num_classes
    return _classwise(predictions, options, lambda sums: lambda gap: gap.abs().sum(dim=-1) / num_classes)


def shrink(gap: Tensor, error: Tensor, by: float) -> Tensor:
    """Gaps moved `by` deviations towards 0, and not beyond; away from it if `by` is negative."""
    return torch.where(gap < 0, -1.0, 1.0) * (gap.abs() - by * error).clamp(min=0)


def noisy_gaps_interval(
    functional: Functional, gap: Tensor, noise: Noise, *, options: IntervalOptions, towards: int = 0
) -> tuple[float, float]:
    """Limits of a functional of gaps [J] from draws of their noise.

    Worse worlds have larger gaps; or, for an error that counts gaps of one sign, gaps shifted `towards` that sign.
    """

    def limits(error: Tensor) -> tuple[float, float]:
        used = error > 0
        most = float((gap.abs()[used] / error[used]).amax()) if bool(used.any()) else 0.0
        draws = error * noise.draws

        def world(x: float) -> Tensor:
            return gap - towards * x * error if towards and x < 0 else shrink(gap, error, x)

        return invert(
            lambda x: float(functional(world(x))),
            lambda x: functional(world(x) + draws),
            float(functional(gap)) * (1 - 1e-12),  # rounding must not make a noiseless estimate a surprise
            calibrated=most,
            farthest=_FARTHEST,
            options=options,
        )

    return limits(noise.if_calibrated)[0], limits(noise.error)[1]


def residual_variances(predictions: Predictions, bins: Tensor, *, num_bins: int) -> tuple[Tensor, Tensor]:
    """Variance of confidence - correctness [N] of each sample: as it shows in its bin, and as calibration implies."""
    sums = BinSums.of(predictions.confidence, predictions.correct, bins, num_bins=num_bins)
    residual = predictions.confidence - predictions.correct.double()
    count = sums.count.clamp(min=1)
    seen = torch.bincount(bins, weights=residual.square(), minlength=num_bins) / count - sums.mean_gap.square()
    share = (sums.hit + 2) / (sums.count + 4)
    shown = torch.maximum(seen, share * (1 - share))[bins]
    return shown, torch.maximum(shown, predictions.confidence * (1 - predictions.confidence))


def _top_label(
    predictions: Predictions,
    options: IntervalOptions,
    functional: Callable[[BinSums], Functional],
    *,
    bins: Callable[..., Tensor] = equal_width,
    towards: int = 0,
) -> Interval:
    place = bins(predictions.confidence, num_bins=options.num_bins)
    sums = BinSums.of(predictions.confidence, predictions.correct, place, num_bins=options.num_bins)
    gap = sums.gap
    error, if_calibrated = (
        torch.bincount(place, weights=variance, minlength=options.num_bins).sqrt() / predictions.num_samples
        for variance in residual_variances(predictions, place, num_bins=options.num_bins)
    )
    of = functional(sums)
    noise = Noise(options.normals(options.num_replicates, len(gap), like=gap), error, if_calibrated)
    low, high = noisy_gaps_interval(of, gap, noise, options=options, towards=towards)
    return options.interval(of(gap), low, high, "inverted normal bin sums")


def _one_sided(sums: BinSums, sign: int) -> Functional:
    confidence = sums.score / sums.count.clamp(min=1)
    return lambda gap: ((sign * gap).clamp(min=0) * confidence).sum(dim=-1)


def _classwise(
    predictions: Predictions, options: IntervalOptions, functional: Callable[[BinSums], Functional]
) -> Interval:
    sums = classwise_sums(predictions, num_bins=options.num_bins)
    n, gap = predictions.num_samples, sums.gap.flatten()  # [K M]
    number = min(_NUM_GROUPS, n, max(20, 2**23 // len(gap)))
    generator = torch.Generator().manual_seed(options.seed)
    group = torch.randperm(n, generator=generator).to(gap.device) % number
    grouped = classwise_sums(predictions, num_bins=options.num_bins, group=group, num_groups=number)
    spread = grouped.gap.view(number, -1)  # [G, K M]: how independent parts of the sample differ
    spread = spread - spread.mean(dim=0)
    spread = spread / spread.square().sum(dim=0).sqrt().clamp(min=torch.finfo(spread.dtype).tiny)
    replicates = max(200, min(options.num_replicates, 2**24 // len(gap)))
    draws = options.normals(replicates, number, like=gap) @ spread  # of unit deviation, correlated as the bins are
    count, rate = sums.count.flatten(), (sums.score / sums.count.clamp(min=1)).flatten()
    share = (sums.hit / sums.count.clamp(min=1)).flatten()
    shown = (count * share * (1 - share)).sqrt() / n
    implied = (count * rate * (1 - rate)).sqrt() / n  # at least that of the probabilities themselves: sqrt is concave
    of = functional(sums)
    noise = Noise(draws, torch.maximum(shown, implied), torch.maximum(shown, implied))
    low, high = noisy_gaps_interval(of, gap, noise, options=options)
    return options.interval(of(gap), low, high, "inverted normal bin sums")
