"""Interval of the smooth calibration error."""

from surefoot.metrics.intervals.binned import noisy_gaps_interval
from surefoot.metrics.intervals.interval import Interval, Options
from surefoot.metrics.smooth_ece import cosine_spectrum, mass, sm_ece, smooth_field, spread
from surefoot.predictions import Predictions

_NODES_PER_WIDTH = 4
_FEWEST, _MOST = 64, 1024


def sm_ece_interval(predictions: Predictions, options: Options) -> Interval:
    """As for binned errors, with the smoothed gap at the nodes of a grid in the place of the gaps of bins.

    The smoothing width stays as it was found. At that width the population's error lies in the interval; its own width
    would move it towards the width as found, which is in the interval too.
    """
    value = sm_ece(predictions)
    width = float(value)
    cells = int(min(_MOST, max(_FEWEST, _NODES_PER_WIDTH / max(width, 1e-9))))
    residual = predictions.confidence - predictions.correct.double()
    n = predictions.num_samples
    gap = spread(predictions.confidence, residual / n, cells=cells)
    square = spread(predictions.confidence, residual.square() / n, cells=cells)
    error = ((square - gap.square()).clamp(min=0) / n).sqrt()
    noise = error * options.normals(options.num_replicates, cells + 1, like=gap)
    field, rough = (smooth_field(cosine_spectrum(part), value) for part in (gap, noise))
    low, high = noisy_gaps_interval(mass, field, rough, error=rough.std(dim=0), options=options)
    return options.interval(value, low, high, "inverted normal field")
