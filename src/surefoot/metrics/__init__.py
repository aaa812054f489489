"""Functions of one `Predictions`, each a float64 scalar, exact and free of the order of samples."""

from collections.abc import Callable

from torch import Tensor

from surefoot.metrics._ada_ece import ada_ece
from surefoot.metrics._brier_parts import BrierParts, brier_parts
from surefoot.metrics._classwise_ece import classwise_ece
from surefoot.metrics._ece import debiased_rms_ce, ece, mce, oe, rms_ce, ue
from surefoot.metrics._intervals import Interval, interval
from surefoot.metrics._kce import kce, mmce
from surefoot.metrics._reliability import reliability
from surefoot.metrics._skce import skce
from surefoot.metrics._sm_ece import sm_ece
from surefoot.metrics.evaluation import EVALUATED, Evaluation, evaluate, intervals
from surefoot.metrics.label_distribution import vote_accuracy, vote_ece, vote_intervals, vote_kl, vote_nll
from surefoot.metrics.margins import log_margin_moment, margin_quantiles, mean_margin, min_margin
from surefoot.metrics.ranking import aurc, auroc_correct, auroc_ood, auroc_ovr
from surefoot.metrics.scores import accuracy, brier, entropy, mean_confidence, nll
from surefoot.metrics.significance import Significance, ece_test, skce_test
from surefoot.metrics.streaming import StreamingMetrics
from surefoot.predictions import Predictions
from surefoot.reliability_bin import ReliabilityBin

METRICS: dict[str, Callable[[Predictions], Tensor]] = {
    "accuracy": accuracy,
    "nll": nll,
    "brier": brier,
    "entropy": entropy,
    "mean_confidence": mean_confidence,
    "ece": ece,
    "ada_ece": ada_ece,
    "classwise_ece": classwise_ece,
    "mce": mce,
    "rms_ce": rms_ce,
    "debiased_rms_ce": debiased_rms_ce,
    "sm_ece": sm_ece,
    "oe": oe,
    "ue": ue,
    "kce": kce,
    "mmce": mmce,
    "skce": skce,
    "auroc_correct": auroc_correct,
    "auroc_ovr": auroc_ovr,
    "aurc": aurc,
    "log_margin_moment": log_margin_moment,
    "mean_margin": mean_margin,
    "min_margin": min_margin,
}
HIGHER_IS_BETTER = frozenset({"accuracy", "auroc_correct", "auroc_ovr", "mean_margin", "min_margin"})
NEITHER_IS_BETTER = frozenset({"mean_confidence", "entropy"})

__all__ = [
    "EVALUATED",
    "HIGHER_IS_BETTER",
    "METRICS",
    "NEITHER_IS_BETTER",
    "BrierParts",
    "Evaluation",
    "Interval",
    "ReliabilityBin",
    "Significance",
    "StreamingMetrics",
    "accuracy",
    "ada_ece",
    "aurc",
    "auroc_correct",
    "auroc_ood",
    "auroc_ovr",
    "brier",
    "brier_parts",
    "classwise_ece",
    "debiased_rms_ce",
    "ece",
    "ece_test",
    "entropy",
    "evaluate",
    "interval",
    "intervals",
    "kce",
    "log_margin_moment",
    "margin_quantiles",
    "mce",
    "mean_confidence",
    "mean_margin",
    "min_margin",
    "mmce",
    "nll",
    "oe",
    "reliability",
    "rms_ce",
    "skce",
    "skce_test",
    "sm_ece",
    "ue",
    "vote_accuracy",
    "vote_ece",
    "vote_intervals",
    "vote_kl",
    "vote_nll",
]
