"""Functions of one `Predictions`, each a float64 scalar, exact and free of the order of samples."""

from surefoot.metric import METRICS, METRICS_OF_MORE, Metric, metric_of
from surefoot.metrics._ada_ece import ada_ece
from surefoot.metrics._brier_parts import BrierParts, brier_parts
from surefoot.metrics._classwise_ece import classwise_ece
from surefoot.metrics._ece import debiased_rms_ce, ece, mce, oe, rms_ce, ue
from surefoot.metrics._intervals import Interval, IntervalOptions, auroc_ood_interval, interval
from surefoot.metrics._kce import kce, mmce
from surefoot.metrics._reliability import reliability
from surefoot.metrics._skce import skce
from surefoot.metrics._sm_ece import sm_ece
from surefoot.metrics.evaluation import Evaluation, evaluate, intervals
from surefoot.metrics.label_distribution import vote_accuracy, vote_ece, vote_intervals, vote_kl, vote_nll
from surefoot.metrics.margins import log_margin_moment, margin_quantiles, mean_margin, min_margin
from surefoot.metrics.ranking import aurc, auroc_correct, auroc_ood, auroc_ovr
from surefoot.metrics.scores import accuracy, brier, entropy, mean_confidence, nll
from surefoot.metrics.significance import Significance, ece_test, skce_test
from surefoot.metrics.streaming import StreamingMetrics
from surefoot.reliability_bin import ReliabilityBin

__all__ = [  # noqa: RUF022 (grouped)
    # one record per metric, and all of them measured at once
    "METRICS",
    "METRICS_OF_MORE",
    "Evaluation",
    "Interval",
    "IntervalOptions",
    "Metric",
    "evaluate",
    "interval",
    "intervals",
    "metric_of",
    # means over samples
    "BrierParts",
    "accuracy",
    "brier",
    "brier_parts",
    "entropy",
    "mean_confidence",
    "nll",
    # calibration errors
    "ReliabilityBin",
    "Significance",
    "StreamingMetrics",
    "ada_ece",
    "classwise_ece",
    "debiased_rms_ce",
    "ece",
    "ece_test",
    "kce",
    "mce",
    "mmce",
    "oe",
    "reliability",
    "rms_ce",
    "skce",
    "skce_test",
    "sm_ece",
    "ue",
    # ranking
    "aurc",
    "auroc_correct",
    "auroc_ood",
    "auroc_ood_interval",
    "auroc_ovr",
    # margins
    "log_margin_moment",
    "margin_quantiles",
    "mean_margin",
    "min_margin",
    # against votes
    "vote_accuracy",
    "vote_ece",
    "vote_intervals",
    "vote_kl",
    "vote_nll",
]
