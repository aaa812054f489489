"""Intervals of metrics for the population behind a sample, honest where the plain bootstrap is not."""

from surefoot.metrics._intervals._interval import Interval, IntervalOf, Options
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
from surefoot.metrics._intervals.kernel import kce_interval, skce_interval
from surefoot.metrics._intervals.means import (
    accuracy_interval,
    brier_interval,
    entropy_interval,
    log_margin_moment_interval,
    mean_confidence_interval,
    mean_margin_interval,
    nll_interval,
)
from surefoot.metrics._intervals.ranks import aurc_interval, auroc_correct_interval, auroc_ovr_interval
from surefoot.metrics._intervals.smooth import sm_ece_interval
from surefoot.predictions import Predictions
from surefoot.registry import look_up

INTERVALS: dict[str, IntervalOf] = {
    "accuracy": accuracy_interval,
    "nll": nll_interval,
    "brier": brier_interval,
    "entropy": entropy_interval,
    "mean_confidence": mean_confidence_interval,
    "ece": ece_interval,
    "ada_ece": ada_ece_interval,
    "classwise_ece": classwise_ece_interval,
    "mce": mce_interval,
    "rms_ce": rms_ce_interval,
    "debiased_rms_ce": debiased_rms_ce_interval,
    "sm_ece": sm_ece_interval,
    "oe": oe_interval,
    "ue": ue_interval,
    "kce": kce_interval(0.2),
    "mmce": kce_interval(0.4),
    "skce": skce_interval,
    "auroc_correct": auroc_correct_interval,
    "auroc_ovr": auroc_ovr_interval,
    "aurc": aurc_interval,
    "log_margin_moment": log_margin_moment_interval,
    "mean_margin": mean_margin_interval,
}


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
    options = Options(level=level, num_bins=num_bins, num_replicates=num_replicates, seed=seed)
    return look_up("metric with an interval", metric, INTERVALS)(predictions, options)


__all__ = ["INTERVALS", "Interval", "interval"]
