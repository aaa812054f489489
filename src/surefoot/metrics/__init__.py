"""Functions of one `Predictions`, each a float64 scalar, exact and free of the order of samples."""

from collections.abc import Callable

from torch import Tensor

from surefoot.metrics.ece import ece
from surefoot.metrics.kernel_ce import kce
from surefoot.metrics.margins import log_margin_moment, margin_quantiles, mean_margin, min_margin
from surefoot.metrics.scores import accuracy, mean_confidence, nll
from surefoot.predictions import Predictions

METRICS: dict[str, Callable[[Predictions], Tensor]] = {
    "accuracy": accuracy,
    "ece": ece,
    "kce": kce,
    "log_margin_moment": log_margin_moment,
    "mean_confidence": mean_confidence,
    "mean_margin": mean_margin,
    "min_margin": min_margin,
    "nll": nll,
}

__all__ = [
    "METRICS",
    "accuracy",
    "ece",
    "kce",
    "log_margin_moment",
    "margin_quantiles",
    "mean_confidence",
    "mean_margin",
    "min_margin",
    "nll",
]
