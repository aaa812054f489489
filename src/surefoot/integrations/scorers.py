"""Our metrics as scikit-learn's scorers."""

from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import column_or_1d

from surefoot.metrics import METRICS
from surefoot.predictions import Predictions
from surefoot.registry import look_up

Array = np.ndarray[Any, Any]


def calibration_error(y_true: Any, y_prob: Any, *, metric: str = "ece", labels: Any = None, **options: Any) -> float:
    """One of `surefoot.metrics.METRICS` of probabilities [N, K], or [N] of the second of two classes.

    `labels` are the classes in the order of the columns; where None, those in `y_true`, sorted. Fit for `make_scorer(
    calibration_error, response_method="predict_proba", greater_is_better=False)`; `scorer` knows the classes by itself.

    >>> calibration_error(["no", "yes", "yes", "yes"], [0.5, 0.5, 0.5, 0.5])
    0.25
    """
    y_true, probabilities = column_or_1d(y_true), np.asarray(y_prob, dtype=np.float64)
    if probabilities.ndim == 1:
        probabilities = np.stack([1 - probabilities, probabilities], axis=1)
    classes = np.unique(y_true) if labels is None else np.asarray(labels)
    if len(classes) != probabilities.shape[1]:
        raise ValueError(
            f"`labels` must name the class of each of {probabilities.shape[1]} columns of `y_prob`, "
            f"got {len(classes)}: {', '.join(map(str, classes))}."
        )
    truth = torch.from_numpy(places_of(y_true, classes))
    value = look_up("metric", metric, METRICS)(
        Predictions.from_probabilities(torch.from_numpy(probabilities), truth), **options
    )
    return float(value)


class scorer:  # noqa: N801, called like a function, as `make_scorer` is
    """One of our metrics as scikit-learn's `scoring`: a larger score is better, so errors are negated.

    Probabilities are those of `predict_proba`, with the estimator's own `classes_`, so that folds without some class
    are no trouble. `cross_validate(estimator, X, y, scoring={"ece": scorer("ece"), "nll": scorer("nll")})`.
    """

    def __init__(self, metric: str, **options: Any) -> None:
        higher_is_better = look_up("metric", metric, METRICS).higher_is_better
        if higher_is_better is None:
            raise ValueError(f"`metric` must have a better side to be a score, got {metric!r}, which has none.")
        self.metric, self.options = metric, options
        self.sign = 1 if higher_is_better else -1

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:  # noqa: N803
        if not hasattr(estimator, "predict_proba"):
            raise ValueError(f"`estimator` must have predict_proba, got {estimator!r}, which has not.")
        value = calibration_error(
            y, estimator.predict_proba(X), metric=self.metric, labels=estimator.classes_, **self.options
        )
        return self.sign * value

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"scorer({self.metric!r}{options})"


def places_of(y: Array, classes: Array) -> Array:
    """The place of each label among the classes."""
    order = np.argsort(classes)
    ranks = np.searchsorted(classes, y, sorter=order).clip(max=len(classes) - 1)
    places: Array = order[ranks]
    strange = classes[places] != y
    if strange.any():
        raise ValueError(
            f"`y` must hold the classes {', '.join(map(str, classes))} only, got {y[strange][0]!s} among them."
        )
    return places
