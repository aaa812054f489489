"""Intervals of means over samples."""

import math
from collections.abc import Callable

from torch import Tensor

from surefoot.metrics._intervals._interval import Interval, IntervalOf, IntervalOptions, normal_quantile
from surefoot.metrics.scores import brier_values, entropy_values, nll_values
from surefoot.predictions import Predictions
from surefoot.proportion import wilson


def accuracy_interval(predictions: Predictions, options: IntervalOptions) -> Interval:
    """Wilson's interval of a proportion."""
    value = float(predictions.correct.double().mean())
    low, high = wilson(value, predictions.num_samples, tail=options.tail)
    return options.interval(value, low, high, "wilson")


def mean_interval(values: Callable[[Predictions], Tensor], *, low: float, high: float) -> IntervalOf:
    """The interval of the mean of `values(predictions)`, by the central limit theorem, within [low, high]."""

    def interval(predictions: Predictions, options: IntervalOptions) -> Interval:
        numbers = values(predictions)
        mean = float(numbers.mean())
        if math.isinf(mean):
            number = int(numbers.isinf().sum())
            return options.interval(mean, low, mean, f"infinite: {number} samples gave their true class nothing")
        reach = -normal_quantile(options.tail) * standard_error(numbers)
        return options.interval(mean, max(low, mean - reach), min(high, mean + reach), "normal")

    return interval


def standard_error(values: Tensor) -> float:
    """Of the mean of independent values."""
    return float(values.std()) / math.sqrt(len(values))


nll_interval = mean_interval(nll_values, low=0.0, high=math.inf)
brier_interval = mean_interval(brier_values, low=0.0, high=2.0)
entropy_interval = mean_interval(entropy_values, low=0.0, high=math.inf)
mean_confidence_interval = mean_interval(lambda predictions: predictions.confidence, low=0.0, high=1.0)
mean_margin_interval = mean_interval(lambda predictions: predictions.margin, low=-math.inf, high=math.inf)


def log_margin_moment_interval(predictions: Predictions, options: IntervalOptions) -> Interval:
    """The interval of the mean of exp(-margin), in the log domain."""
    margin = predictions.margin
    top = (-margin).amax()
    scaled = (-margin - top).exp()
    mean = float(scaled.mean())
    reach = -normal_quantile(options.tail) * standard_error(scaled)
    low, value, high = (float(top) + math.log(x) if x > 0 else -math.inf for x in (mean - reach, mean, mean + reach))
    return options.interval(value, low, high, "normal")
