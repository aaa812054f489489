"""Intervals of areas under curves, from what each sample adds to them."""

import math

import torch
from torch import Tensor

from surefoot.metrics._intervals._interval import Interval, IntervalOptions, normal_quantile
from surefoot.metrics._intervals.means import standard_error
from surefoot.metrics.ranking import Separation, aurc, aurc_influence, class_separations, foreign_separation, separation
from surefoot.predictions import Predictions


def auroc_correct_interval(predictions: Predictions, options: IntervalOptions) -> Interval:
    """DeLong's variance, on the scale of log odds so that the limits stay in [0, 1]."""
    return _area([separation(predictions.confidence, predictions.correct)], options)


def auroc_ovr_interval(predictions: Predictions, options: IntervalOptions) -> Interval:
    """The same for the mean over classes, whose errors go together."""
    return _area(class_separations(predictions), options)


def auroc_ood_interval(predictions: Predictions, foreign: Tensor, options: IntervalOptions) -> Interval:
    """The same for the confidences of samples from another distribution."""
    return _area([foreign_separation(predictions, foreign)], options)


def aurc_interval(predictions: Predictions, options: IntervalOptions) -> Interval:
    """By the influence of each sample, on the log scale."""
    value = float(aurc(predictions))
    if value == 0:
        return options.interval(0.0, 0.0, _none_of(predictions.num_samples, options), "no error seen")
    reach = -normal_quantile(options.tail) * standard_error(aurc_influence(predictions)) / value
    return options.interval(value, value * math.exp(-reach), min(1.0, value * math.exp(reach)), "influence")


def _area(parts: list[Separation], options: IntervalOptions) -> Interval:
    value = float(torch.stack([part.area for part in parts]).mean())
    influence = torch.zeros_like(parts[0].influence)
    lonely = 0
    for part in parts:
        influence += part.influence / len(parts)
        lonely += (part.num_positive == 1) + (part.num_negative == 1)
    # a single sample of a kind shows nothing of how that kind varies: at most 1/4, as anything in [0, 1]
    error = math.sqrt(standard_error(influence) ** 2 + lonely / 4 / len(parts) ** 2)
    if value in (0, 1) or error == 0:
        unseen = _none_of(min(min(part.num_positive, part.num_negative) for part in parts), options)
        return options.interval(value, max(0.0, value - unseen), min(1.0, value + unseen), "no other order seen")
    reach = -normal_quantile(options.tail) * error / (value * (1 - value))
    odds = math.log(value / (1 - value)) if value > 0 else -math.inf
    low, high = (1 / (1 + math.exp(-x)) for x in (odds - reach, odds + reach))
    return options.interval(value, low, high, "influence")


def _none_of(count: int, options: IntervalOptions) -> float:
    """The largest rate of an event of which none in `count` was seen."""
    return 1 - math.exp(math.log(options.tail) / count)
