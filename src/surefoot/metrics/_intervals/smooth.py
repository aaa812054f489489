"""Interval of the smooth calibration error."""

import torch

from surefoot.metrics._intervals._interval import Interval, IntervalOptions
from surefoot.metrics._intervals.binned import Noise, noisy_gaps_interval, residual_variances
from surefoot.metrics._sm_ece import cosine_spectrum, mass, sm_ece, smooth_field, spread
from surefoot.metrics.bins import equal_width
from surefoot.predictions import Predictions

_NODES_PER_WIDTH = 4
_FEWEST, _MOST = 64, 1024


def sm_ece_interval(predictions: Predictions, options: IntervalOptions) -> Interval:
    """As for binned errors, with the smoothed gap at the nodes of a grid in the place of the gaps of bins.

    The smoothing width stays as it was found. At that width the population's error lies in the interval; its own width
    would move it towards the width as found, which is in the interval too.
    """
    value = sm_ece(predictions)
    width = float(value)
    cells = int(min(_MOST, max(_FEWEST, _NODES_PER_WIDTH / max(width, 1e-9))))
    n, confidence = predictions.num_samples, predictions.confidence
    gap = spread(confidence, (confidence - predictions.correct.double()) / n, cells=cells)
    place = equal_width(confidence, num_bins=options.num_bins)
    draws = options.normals(options.num_replicates, cells + 1, like=gap)
    field = smooth_field(cosine_spectrum(gap), value)
    shown, implied = (
        smooth_field(cosine_spectrum(spread(confidence, variance, cells=cells).sqrt() / n * draws), value)
        for variance in residual_variances(predictions, place, num_bins=options.num_bins)
    )
    error, if_calibrated = shown.std(dim=0), implied.std(dim=0)
    tiny = torch.finfo(error.dtype).tiny
    noise = Noise(shown / error.clamp(min=tiny), error, if_calibrated)
    low, high = noisy_gaps_interval(mass, field, noise, options=options)
    return options.interval(value, low, high, "inverted normal field")
