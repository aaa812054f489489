"""Intervals of metrics for the population behind a sample, honest where the plain bootstrap is not."""

from surefoot.metric import METRICS
from surefoot.metrics._intervals._interval import Interval, IntervalOf, IntervalOptions
from surefoot.metrics._intervals.binned import (
    ada_ece_interval,
    classwise_ece_interval,
    debiased_rms_ce_interval,
    ece_interval,
    mce_interval,
    oe_interval,
    rms_ce_interval,
    ue_interval,
)
from surefoot.metrics._intervals.kernel import kce_interval, mmce_interval, skce_interval
from surefoot.metrics._intervals.means import (
    accuracy_interval,
    brier_interval,
    entropy_interval,
    log_margin_moment_interval,
    mean_confidence_interval,
    mean_margin_interval,
    nll_interval,
)
from surefoot.metrics._intervals.ranks import (
    aurc_interval,
    auroc_correct_interval,
    auroc_ood_interval,
    auroc_ovr_interval,
)
from surefoot.metrics._intervals.smooth import sm_ece_interval
from surefoot.predictions import Predictions
from surefoot.registry import unknown


def interval(
    metric: str,
    predictions: Predictions,
    *,
    level: float = 0.95,
    num_bins: int = 15,
    num_replicates: int = 1000,
    seed: int = 0,
) -> Interval:
    """The metric's value with an interval for the population's, which holds it in about `level` of all samples.

    `min_margin` has none: the extreme of a sample says nothing about the population's.

    >>> import torch
    >>> p = Predictions(torch.tensor([[2.0, 0.0]]).expand(1000, 2), (torch.arange(1000) % 5 == 0).long())
    >>> str(interval("accuracy", p))
    '0.8000 [0.7741, 0.8236]'
    """
    options = IntervalOptions(level=level, num_bins=num_bins, num_replicates=num_replicates, seed=seed)
    return interval_function(metric)(predictions, options)


def interval_function(metric: str) -> IntervalOf:
    """The function of a metric's interval; ValueError where there is no such metric, or it has no interval."""
    record = METRICS.get(metric)
    function = None if record is None else record.interval_implementation
    if function is None:
        names = [name for name, each in METRICS.items() if each.interval is not None]
        raise unknown("metric with an interval", metric, names)
    return function


__all__ = [  # noqa: RUF022 (grouped)
    # the one to call, and what it returns
    "Interval",
    "IntervalOptions",
    "interval",
    "interval_function",
    # means over samples
    "accuracy_interval",
    "brier_interval",
    "entropy_interval",
    "log_margin_moment_interval",
    "mean_confidence_interval",
    "mean_margin_interval",
    "nll_interval",
    # calibration errors
    "ada_ece_interval",
    "classwise_ece_interval",
    "debiased_rms_ce_interval",
    "ece_interval",
    "kce_interval",
    "mce_interval",
    "mmce_interval",
    "oe_interval",
    "rms_ce_interval",
    "skce_interval",
    "sm_ece_interval",
    "ue_interval",
    # areas under curves
    "aurc_interval",
    "auroc_correct_interval",
    "auroc_ood_interval",
    "auroc_ovr_interval",
]
