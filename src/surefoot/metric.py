"""One record per metric: its function, interval, direction and meaning. One entry of the table adds a metric.

The table is read without importing torch: functions are named by module and imported when a metric is first measured.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from surefoot.predictions import Predictions

Function = Callable[..., Any] | str  # a function, or "module:name" of one that is imported when it is first used


@dataclass(frozen=True)
class Metric:
    """A number that predictions have, and how to read it.

    Calling a metric measures it: `METRICS["ece"](predictions, num_bins=10)`.
    """

    name: str
    function: Function  # of `Predictions`, to a float64 scalar
    interval: Function | None  # of `Predictions` and `IntervalOptions`, to an `Interval`
    higher_is_better: bool | None  # None where neither direction is better
    label: str  # as tables and axes name it
    meaning: str  # in a few words, for people
    evaluated: bool = True  # whether `evaluate` measures it

    def __call__(self, predictions: "Predictions", **options: Any) -> "Tensor":
        value: Tensor = self.implementation(predictions, **options)
        return value

    @cached_property
    def implementation(self) -> Callable[..., Any]:
        """The function, imported if it was named."""
        return _imported(self.function)

    @cached_property
    def interval_implementation(self) -> Callable[..., Any] | None:
        """The function of its interval; None where the metric has none."""
        return None if self.interval is None else _imported(self.interval)


def metric_of(key: str) -> Metric | None:
    """The metric that a key of a run's rows is about; None where it is about something else.

    >>> metric_of("test/ece").label, metric_of("test/auroc_ood").higher_is_better, metric_of("train/ggn_sharpness")
    ('ECE', True, None)
    """
    quantity = key.rpartition("/")[2]
    name = _STORED_AS.get(quantity, quantity)
    return METRICS.get(name) or METRICS_OF_MORE.get(name)


def meaning_of(name: str) -> str:
    """What a metric measures, in a few words; nothing where it has no record."""
    record = metric_of(name)
    return "" if record is None else record.meaning


def _imported(function: Function) -> Callable[..., Any]:
    if not isinstance(function, str):
        return function
    module, _, name = function.partition(":")
    implementation: Callable[..., Any] = getattr(import_module(module), name)
    return implementation


_STORED_AS = {
    "confidence": "mean_confidence",
    "margin_mean": "mean_margin",
    "margin_min": "min_margin",
}  # quantity in a row -> metric

METRICS: dict[str, Metric] = {
    "accuracy": Metric(
        "accuracy",
        "surefoot.metrics.scores:accuracy",
        "surefoot.metrics._intervals.means:accuracy_interval",
        higher_is_better=True,
        label="accuracy",
        meaning="share of right predictions",
    ),
    "mean_confidence": Metric(
        "mean_confidence",
        "surefoot.metrics.scores:mean_confidence",
        "surefoot.metrics._intervals.means:mean_confidence_interval",
        higher_is_better=None,
        label="mean confidence",
        meaning="mean of the largest probability; above the accuracy means overconfident",
    ),
    "ece": Metric(
        "ece",
        "surefoot.metrics._ece:ece",
        "surefoot.metrics._intervals.binned:ece_interval",
        higher_is_better=False,
        label="ECE",
        meaning="mean gap between confidence and accuracy, equal-width bins",
    ),
    "ada_ece": Metric(
        "ada_ece",
        "surefoot.metrics._ada_ece:ada_ece",
        "surefoot.metrics._intervals.binned:ada_ece_interval",
        higher_is_better=False,
        label="AdaECE",
        meaning="ECE in bins of equal mass",
    ),
    "classwise_ece": Metric(
        "classwise_ece",
        "surefoot.metrics._classwise_ece:classwise_ece",
        "surefoot.metrics._intervals.binned:classwise_ece_interval",
        higher_is_better=False,
        label="classwise ECE",
        meaning="ECE of every class's probability, mean over classes",
    ),
    "mce": Metric(
        "mce",
        "surefoot.metrics._ece:mce",
        "surefoot.metrics._intervals.binned:mce_interval",
        higher_is_better=False,
        label="MCE",
        meaning="the largest gap of any bin",
    ),
    "rms_ce": Metric(
        "rms_ce",
        "surefoot.metrics._ece:rms_ce",
        "surefoot.metrics._intervals.binned:rms_ce_interval",
        higher_is_better=False,
        label="RMSCE",
        meaning="root mean squared gap",
    ),
    "debiased_rms_ce": Metric(
        "debiased_rms_ce",
        "surefoot.metrics._ece:debiased_rms_ce",
        "surefoot.metrics._intervals.binned:debiased_rms_ce_interval",
        higher_is_better=False,
        label="debiased RMSCE",
        meaning="root mean squared gap, less what sampling noise adds",
    ),
    "sm_ece": Metric(
        "sm_ece",
        "surefoot.metrics._sm_ece:sm_ece",
        "surefoot.metrics._intervals.smooth:sm_ece_interval",
        higher_is_better=False,
        label="smooth ECE",
        meaning="the gap smoothed instead of binned",
    ),
    "oe": Metric(
        "oe",
        "surefoot.metrics._ece:oe",
        "surefoot.metrics._intervals.binned:oe_interval",
        higher_is_better=False,
        label="OE",
        meaning="overconfidence error",
    ),
    "ue": Metric(
        "ue",
        "surefoot.metrics._ece:ue",
        "surefoot.metrics._intervals.binned:ue_interval",
        higher_is_better=False,
        label="UE",
        meaning="underconfidence error",
    ),
    "kce": Metric(
        "kce",
        "surefoot.metrics._kce:kce",
        "surefoot.metrics._intervals.kernel:kce_interval",
        higher_is_better=False,
        label="KCE",
        meaning="kernel calibration error of the top label, width 0.2",
    ),
    "mmce": Metric(
        "mmce",
        "surefoot.metrics._kce:mmce",
        "surefoot.metrics._intervals.kernel:mmce_interval",
        higher_is_better=False,
        label="MMCE",
        meaning="kernel calibration error of the top label, width 0.4",
    ),
    "skce": Metric(
        "skce",
        "surefoot.metrics._skce:skce",
        "surefoot.metrics._intervals.kernel:skce_interval",
        higher_is_better=False,
        label="SKCE",
        meaning="squared kernel calibration error of the whole probability vector",
        evaluated=False,  # O(N^2)
    ),
    "nll": Metric(
        "nll",
        "surefoot.metrics.scores:nll",
        "surefoot.metrics._intervals.means:nll_interval",
        higher_is_better=False,
        label="NLL",
        meaning="negative log-likelihood, nats",
    ),
    "brier": Metric(
        "brier",
        "surefoot.metrics.scores:brier",
        "surefoot.metrics._intervals.means:brier_interval",
        higher_is_better=False,
        label="Brier score",
        meaning="squared error of probabilities, summed over classes",
    ),
    "entropy": Metric(
        "entropy",
        "surefoot.metrics.scores:entropy",
        "surefoot.metrics._intervals.means:entropy_interval",
        higher_is_better=None,
        label="entropy",
        meaning="mean entropy of the probabilities, nats",
    ),
    "auroc_correct": Metric(
        "auroc_correct",
        "surefoot.metrics.ranking:auroc_correct",
        "surefoot.metrics._intervals.ranks:auroc_correct_interval",
        higher_is_better=True,
        label="AUROC",
        meaning="how well confidence separates right from wrong predictions",
    ),
    "auroc_ovr": Metric(
        "auroc_ovr",
        "surefoot.metrics.ranking:auroc_ovr",
        "surefoot.metrics._intervals.ranks:auroc_ovr_interval",
        higher_is_better=True,
        label="one-versus-rest AUROC",
        meaning="how well probabilities separate each class from the rest, mean over classes",
    ),
    "aurc": Metric(
        "aurc",
        "surefoot.metrics.ranking:aurc",
        "surefoot.metrics._intervals.ranks:aurc_interval",
        higher_is_better=False,
        label="AURC",
        meaning="mean error rate among the most confident samples",
    ),
    "log_margin_moment": Metric(
        "log_margin_moment",
        "surefoot.metrics.margins:log_margin_moment",
        "surefoot.metrics._intervals.means:log_margin_moment_interval",
        higher_is_better=False,
        label="log margin moment",
        meaning="log of the mean of exp(-margin)",
        evaluated=False,
    ),
    "mean_margin": Metric(
        "mean_margin",
        "surefoot.metrics.margins:mean_margin",
        "surefoot.metrics._intervals.means:mean_margin_interval",
        higher_is_better=True,
        label="mean margin",
        meaning="mean of the true margin, in logits",
        evaluated=False,
    ),
    "min_margin": Metric(
        "min_margin",
        "surefoot.metrics.margins:min_margin",
        None,  # the extreme of a sample says nothing about the population's
        higher_is_better=True,
        label="smallest margin",
        meaning="smallest true margin, in logits",
        evaluated=False,
    ),
}

METRICS_OF_MORE: dict[str, Metric] = {  # of predictions and something else, so that `evaluate` cannot measure them
    "auroc_ood": Metric(
        "auroc_ood",
        "surefoot.metrics.ranking:auroc_ood",
        "surefoot.metrics._intervals.ranks:auroc_ood_interval",
        higher_is_better=True,
        label="OOD AUROC",
        meaning="how well confidence separates these samples from out-of-distribution ones",
        evaluated=False,
    ),
    "ece_temperature": Metric(
        "ece_temperature",
        "surefoot.posthoc._tce:tce",
        None,
        higher_is_better=False,
        label="TCE",
        meaning="ECE after temperature scaling",
        evaluated=False,
    ),
    "vote_accuracy": Metric(
        "vote_accuracy",
        "surefoot.metrics.label_distribution:vote_accuracy",
        None,  # `vote_intervals` has those of all four at once
        higher_is_better=True,
        label="vote accuracy",
        meaning="how often a voter agrees with the prediction",
        evaluated=False,
    ),
    "vote_ece": Metric(
        "vote_ece",
        "surefoot.metrics.label_distribution:vote_ece",
        None,
        higher_is_better=False,
        label="vote ECE",
        meaning="mean gap between confidence and the share of voters who agree",
        evaluated=False,
    ),
    "vote_nll": Metric(
        "vote_nll",
        "surefoot.metrics.label_distribution:vote_nll",
        None,
        higher_is_better=False,
        label="vote NLL",
        meaning="negative log-likelihood of the votes, nats",
        evaluated=False,
    ),
    "vote_kl": Metric(
        "vote_kl",
        "surefoot.metrics.label_distribution:vote_kl",
        None,
        higher_is_better=False,
        label="vote KL",
        meaning="how far the probabilities are from the votes, KL(votes || probabilities), nats",
        evaluated=False,
    ),
}
