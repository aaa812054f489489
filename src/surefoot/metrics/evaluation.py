"""Every metric of a set of predictions with its interval, and whether the ECE is significant."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from surefoot.argument_error import ArgumentError
from surefoot.metric import METRICS, meaning_of
from surefoot.metrics._brier_parts import BrierParts, brier_parts
from surefoot.metrics._intervals import Interval, IntervalOptions, interval_function
from surefoot.metrics._reliability import reliability
from surefoot.metrics.significance import Significance, ece_test
from surefoot.predictions import Predictions
from surefoot.reliability_bin import ReliabilityBin
from surefoot.table import Table, finite_or_none

if TYPE_CHECKING:
    from surefoot.predictions import ArrayLike


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Metrics by name, as intervals; where a metric is undefined, NaN and as method the reason.

    Prints as a table. `evaluation.metrics["ece"]` has `value`, `low`, `high` and `method`.
    """

    num_samples: int
    num_classes: int
    level: float
    num_bins: int
    metrics: dict[str, Interval]
    significance: Significance  # of the ECE
    parts: BrierParts
    diagram: tuple[ReliabilityBin, ...]

    def __str__(self) -> str:
        return self.table().text()

    __repr__ = __str__

    def with_metrics(self, more: Mapping[str, Interval]) -> "Evaluation":
        """The evaluation with metrics of more than predictions added."""
        return replace(self, metrics={**self.metrics, **more})

    def table(self, *, subject: str = "", methods: bool = False) -> Table:
        """The evaluation as a table.

        Args:
            subject: What was evaluated, for the title.
            methods: Whether a column names the method of each interval.
        """
        title = f"{self.num_samples:,} samples, {self.num_classes} classes, {self.num_bins} bins"
        columns = ("metric", "value", f"{100 * self.level:g} % interval")
        rows = tuple(
            (name, *_cells(each), *((each.method,) if methods else ()), meaning_of(name))
            for name, each in self.metrics.items()
        )
        return Table(
            "evaluation",
            f"{subject}: {title}" if subject else title,
            (*columns, *(("method",) if methods else ()), "what it is"),
            rows,
            notes=(self._verdict(), self._brier()),
        )

    def record(self) -> dict[str, Any]:
        """As JSON can hold it; what is not finite is null."""
        return {
            "n": self.num_samples,
            "num_classes": self.num_classes,
            "level": self.level,
            "num_bins": self.num_bins,
            **{name: interval_record(each) for name, each in self.metrics.items()},
            "ece_p_value": self.significance.p_value,
            "ece_p_value_method": self.significance.method,
            "brier_parts": {name: float(part) for name, part in vars(self.parts).items()},
            "reliability": [each.record() for each in self.diagram],
        }

    def _verdict(self) -> str:
        p = self.significance.p_value
        confidence, accuracy = (self.metrics[name].value for name in ("mean_confidence", "accuracy"))
        size = f"mean confidence {confidence:.4f}, accuracy {accuracy:.4f}"
        about = f"p = {p:.3g}, {self.significance.method}; {size}"
        if p > 1 - self.level:
            return f"The ECE is not significantly larger than that of a calibrated classifier ({about})."
        kind = "overconfident" if confidence > accuracy else "underconfident"
        return f"The ECE is larger than that of a calibrated classifier ({about}): on the whole {kind}."

    def _brier(self) -> str:
        parts = {name: float(part) for name, part in vars(self.parts).items()}
        return (
            f"Brier score = reliability {parts['reliability']:.4g} - resolution {parts['resolution']:.4g} "
            f"+ uncertainty {parts['uncertainty']:.4g} + within bins {parts['within']:.3g}."
        )


def evaluate(
    logits: "Predictions | ArrayLike | None" = None,
    labels: "ArrayLike | None" = None,
    *,
    probabilities: "ArrayLike | None" = None,
    num_bins: int = 15,
    level: float = 0.95,
    on_metric: Callable[[str], None] = lambda name: None,
) -> Evaluation:
    """Measure every metric of predictions, each with a confidence interval.

    Args:
        logits: Pre-softmax scores [N, K] as tensor, NumPy array or lists, or `Predictions`.
        labels: True classes [N], from 0; not with `Predictions`.
        probabilities: Probabilities [N, K], in the place of logits.
        num_bins: Number of equal-width bins of the binned errors.
        level: Confidence level of the intervals.
        on_metric: Called with each metric's name before it is computed.

    Returns:
        The evaluation, which prints as a table.

    >>> result = evaluate([[2.0, 0.0], [0.0, 1.0]] * 50, [0, 1] * 50)
    >>> print(result.metrics["ece"])
    0.1941 [0.1158, 0.2294]
    """
    predictions = Predictions.of(logits, labels, probabilities=probabilities)
    if predictions.num_samples < 2:
        raise ArgumentError("An evaluation needs at least 2 samples, got 1.")
    names = [name for name, metric in METRICS.items() if metric.evaluated]
    return Evaluation(
        predictions.num_samples,
        predictions.num_classes,
        level,
        num_bins,
        intervals(predictions, names, level=level, num_bins=num_bins, on_metric=on_metric),
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
    options = IntervalOptions(level=level, num_bins=num_bins)
    limits = {}
    for name in names:
        on_metric(name)
        function = interval_function(name)
        try:
            limits[name] = function(predictions, options)
        except ValueError as error:
            limits[name] = Interval(math.nan, math.nan, math.nan, level, f"undefined: {error}")
    return limits


def interval_record(limits: Interval) -> dict[str, Any]:
    """Value, limits and method as JSON can hold them."""
    numbers = {name: getattr(limits, name) for name in ("value", "low", "high")}
    return {**{name: finite_or_none(x) for name, x in numbers.items()}, "method": limits.method}


def _cells(limits: Interval) -> tuple[str, str]:
    if math.isnan(limits.value):
        return "-", "-"
    return f"{limits.value:.4f}", f"{limits.low:.4f} to {limits.high:.4f}"
