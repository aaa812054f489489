"""Our post-hoc maps around any scikit-learn classifier."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import check_cv, cross_val_predict
from sklearn.utils import get_tags, indexable
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d

from surefoot.integrations.scorers import Array, places_of
from surefoot.posthoc import POSTHOC, Map
from surefoot.predictions import Predictions
from surefoot.registry import look_up

_RESPONSES = ("decision_function", "predict_proba")


class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose scores go through one of our post-hoc maps, fitted on samples it was not trained on.

    `estimator` (logistic regression where None) is fitted to all samples, the map to the scores that `cv` gives each
    sample from the folds it is not in. A `FrozenEstimator` stays as it is, and the map is fitted to all samples given:
    they must not be those it was trained on. Scores are those of `decision_function` where there is one, taken as
    logits, else the logarithms of `predict_proba`; `response_method` says which otherwise.

    `method` is a name in `surefoot.posthoc.POSTHOC` and `options` go to its `fit`. The default, structured vector
    scaling, exists for every set of samples; others raise ValueError where none is best, as temperature does where no
    sample is wrong. After `fit`: `estimator_`, `map_`, `classes_` and, where the estimator has them, `n_features_in_`
    and `feature_names_in_`.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        method: str = "svs",
        cv: Any = 5,
        response_method: str = "auto",
        options: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.response_method = response_method
        self.options = options
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Fit the estimator, unless it is frozen, and the map."""
        kind: type[Map] = look_up("post-hoc map", self.method, POSTHOC)
        check_classification_targets(y)
        if type_of_target(y).startswith("multilabel"):
            raise ValueError("`y` must hold one class per sample, got multi-label targets, which no map here is for.")
        X, y = indexable(X, column_or_1d(y, warn=True))  # noqa: N806
        estimator = self._estimator()
        response = self._response(estimator)
        if isinstance(estimator, FrozenEstimator):
            check_is_fitted(estimator)
            self.estimator_ = estimator
            scores = getattr(estimator, response)(X)
        else:
            folds = _checked_folds(self.cv, y)
            scores = cross_val_predict(clone(estimator), X, y, cv=folds, method=response, n_jobs=self.n_jobs)
            self.estimator_ = clone(estimator).fit(X, y)
        self.classes_ = self.estimator_.classes_
        predictions = _predictions(scores, places_of(y, self.classes_), classes=self.classes_, response=response)
        self.map_ = kind.fit(predictions, **dict(self.options or {}))
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def decision_function(self, X: Any) -> Array:  # noqa: N803
        """Calibrated logits [N, K]; for two classes the logit of the second, [N]."""
        check_is_fitted(self)
        response = self._response(self.estimator_)
        scores = getattr(self.estimator_, response)(X)
        unlabelled = np.zeros(len(scores), dtype=np.int64)
        predictions = _predictions(scores, unlabelled, classes=self.classes_, response=response)
        logits: Array = self.map_(predictions.exact).numpy()
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """Calibrated probabilities, [N, K]."""
        check_is_fitted(self)
        scores = torch.from_numpy(self.decision_function(X))
        logits = torch.stack([torch.zeros_like(scores), scores], dim=1) if scores.ndim == 1 else scores
        probabilities: Array = logits.softmax(dim=1).numpy()
        return probabilities

    def predict(self, X: Any) -> Array:  # noqa: N803
        """The class of the largest calibrated probability, which need not be the estimator's."""
        check_is_fitted(self)
        classes: Array = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return classes

    def _estimator(self) -> Any:
        return LogisticRegression() if self.estimator is None else self.estimator

    def _response(self, estimator: Any) -> str:
        if self.response_method not in ("auto", *_RESPONSES):
            raise ValueError(
                f"`response_method` must be 'auto', 'decision_function' or 'predict_proba', "
                f"got {self.response_method!r}."
            )
        wanted = _RESPONSES if self.response_method == "auto" else (self.response_method,)
        for name in wanted:
            if hasattr(estimator, name):
                return name
        raise ValueError(f"`estimator` must have {' or '.join(wanted)}, got {estimator!r}, which has not.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        theirs = get_tags(self._estimator()).input_tags
        tags.input_tags.sparse, tags.input_tags.allow_nan = theirs.sparse, theirs.allow_nan
        return tags


def _checked_folds(cv: Any, y: Array) -> Any:
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2:
        content = f"1 class, {classes[0]!s}" if len(classes) else "no sample"
        raise ValueError(f"`y` must hold at least 2 classes, got {content}.")
    if counts.min() < 2:  # so that every fold is scored by an estimator that knows the class
        raise ValueError(
            f"`y` must hold every class twice at least, got 1 sample of class {classes[counts.argmin()]!s}."
        )
    return check_cv(cv, y, classifier=True)


def _predictions(scores: Any, labels: Array, *, classes: Array, response: str) -> Predictions:
    values = torch.from_numpy(np.ascontiguousarray(scores, dtype=np.float64))
    if values.ndim == 1:
        values = torch.stack([-values / 2, values / 2], dim=1)
    if values.shape[1:] != (len(classes),):
        raise ValueError(
            f"`estimator` must give each of {len(classes)} classes a score, "
            f"got {response} of shape {list(values.shape)}."
        )
    truth = torch.from_numpy(labels)
    if response == "predict_proba":
        return Predictions.from_probabilities(values, truth).floored()
    return Predictions(values, truth)
