"""All that can be said of a set of predictions: every metric with its interval, and whether the ECE is noise."""

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from surefoot.metrics._brier_parts import BrierParts, brier_parts
from surefoot.metrics._intervals import INTERVALS, Interval
from surefoot.metrics._intervals._interval import Options
from surefoot.metrics._reliability import reliability
from surefoot.metrics.significance import Significance, ece_test
from surefoot.predictions import Predictions
from surefoot.registry import look_up
from surefoot.reliability_bin import ReliabilityBin

EVALUATED = (
    "accuracy",
    "mean_confidence",
    "ece",
    "ada_ece",
    "classwise_ece",
    "mce",
    "rms_ce",
    "debiased_rms_ce",
    "sm_ece",
    "oe",
    "ue",
    "kce",
    "mmce",
    "nll",
    "brier",
    "entropy",
    "auroc_correct",
    "auroc_ovr",
    "aurc",
)


@dataclass(frozen=True)
class Evaluation:
    """Metrics by name, as intervals; where a metric is undefined, NaN and as method the reason."""

    num_samples: int
    num_classes: int
    level: float
    num_bins: int
    metrics: dict[str, Interval]
    significance: Significance  # of the ECE
    parts: BrierParts
    diagram: tuple[ReliabilityBin, ...]

    def record(self) -> dict[str, Any]:
        """As JSON can hold it; what is not finite is null."""
        return {
            "n": self.num_samples,
            "num_classes": self.num_classes,
            "level": self.level,
            "num_bins": self.num_bins,
            **{name: interval_record(found) for name, found in self.metrics.items()},
            "ece_p_value": self.significance.p_value,
            "ece_p_value_method": self.significance.method,
            "brier_parts": {name: float(part) for name, part in vars(self.parts).items()},
            "reliability": [asdict(each) for each in self.diagram],
        }


def evaluate(
    predictions: Predictions,
    *,
    level: float = 0.95,
    num_bins: int = 15,
    on_metric: Callable[[str], None] = lambda name: None,
) -> Evaluation:
    """Every metric of `EVALUATED`, with intervals; `on_metric` hears the name of each before it is measured."""
    metrics = intervals(predictions, EVALUATED, level=level, num_bins=num_bins, on_metric=on_metric)
    return Evaluation(
        predictions.num_samples,
        predictions.num_classes,
        level,
        num_bins,
        metrics,
        ece_test(predictions, num_bins=num_bins),
        brier_parts(predictions, num_bins=num_bins),
        reliability(predictions, num_bins=num_bins, level=level),
    )


def intervals(
    predictions: Predictions,
    names: Iterable[str],
    *,
    level: float = 0.95,
    num_bins: int = 15,
    on_metric: Callable[[str], None] = lambda name: None,
) -> dict[str, Interval]:
    """The named metrics with intervals; a metric that the predictions leave undefined is NaN, with the reason."""
    options = Options(level=level, num_bins=num_bins)
    found = {}
    for name in names:
        on_metric(name)
        measure = look_up("metric with an interval", name, INTERVALS)
        try:
            found[name] = measure(predictions, options)
        except ValueError as error:
            found[name] = Interval(math.nan, math.nan, math.nan, level, f"undefined: {error}")
    return found


def interval_record(found: Interval) -> dict[str, Any]:
    """Value, limits and method as JSON can hold them."""
    numbers = {name: getattr(found, name) for name in ("value", "low", "high")}
    return {**{name: x if math.isfinite(x) else None for name, x in numbers.items()}, "method": found.method}
