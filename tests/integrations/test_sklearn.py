"""scikit-learn: the calibrated classifier and the scorers."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import log_loss, make_scorer
from sklearn.model_selection import GridSearchCV, cross_validate, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import check_estimator

from surefoot.integrations.scorers import calibration_error, scorer
from surefoot.integrations.sklearn import CalibratedClassifier
from surefoot.metrics import METRICS, ece
from surefoot.posthoc import POSTHOC, Temperature
from surefoot.predictions import Predictions

# the others refuse some of the checks' data, on which none is best: every sample right, or all worse than chance
ALWAYS_THERE = ["beta", "bbq", "dirichlet", "histogram", "isotonic", "platt", "sms", "svs", "temperature_ece"]
X, Y = make_classification(3000, n_features=12, n_informative=5, n_classes=3, class_sep=0.7, flip_y=0.1, random_state=0)
NAMES = np.array(["ant", "bee", "cat"])[Y]


def checked(method: str) -> None:
    results = check_estimator(CalibratedClassifier(method=method))
    states = [result["status"] for result in results]
    assert states.count("passed") >= 54
    # one check needs SCIPY_ARRAY_API set before scipy is imported
    assert [result["check_name"] for result in results if result["status"] != "passed"] == ["check_array_api_input"]


@pytest.mark.filterwarnings("ignore")
def test_all_of_scikit_learns_own_checks() -> None:
    checked("svs")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", [name for name in ALWAYS_THERE if name != "svs"])
def test_all_of_scikit_learns_own_checks_for_other_maps(method: str) -> None:
    checked(method)


@pytest.mark.parametrize("method", POSTHOC)
@pytest.mark.parametrize("num_classes", [2, 3])
def test_a_naive_classifier_becomes_calibrated_in_a_pipeline(method: str, num_classes: int) -> None:
    keep = num_classes > Y
    repeated = np.hstack([X[keep]] * 3)  # which naive Bayes takes for three times the evidence
    fit_x, test_x, fit_y, test_y = train_test_split(repeated, NAMES[keep], random_state=0)
    plain = make_pipeline(StandardScaler(), GaussianNB()).fit(fit_x, fit_y)
    ours = make_pipeline(StandardScaler(), CalibratedClassifier(GaussianNB(), method=method)).fit(fit_x, fit_y)
    probabilities = ours.predict_proba(test_x)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-12)
    assert list(ours.classes_) == sorted(set(fit_y))
    assert (ours.predict(test_x) == ours.classes_[probabilities.argmax(axis=1)]).all()
    assert log_loss(test_y, probabilities) < log_loss(test_y, plain.predict_proba(test_x)) - 0.02
    assert ours[-1].map_.fitted.num_samples == len(fit_y)
    again = pickle.loads(pickle.dumps(ours))
    np.testing.assert_array_equal(again.predict_proba(test_x), probabilities)


def test_the_map_is_fitted_on_samples_that_the_estimator_did_not_see() -> None:
    forest = RandomForestClassifier(30, random_state=0)
    ours = CalibratedClassifier(forest, method="temperature", response_method="predict_proba", cv=3).fit(X, Y)
    seen = np.log(ours.estimator_.predict_proba(X).clip(min=1e-9))
    assert (
        ours.map_.temperature
        > 1.2 * Temperature.fit(Predictions(torch.from_numpy(seen), torch.from_numpy(Y))).temperature
    )


def test_a_frozen_estimator_beside_scikit_learns_own_temperature() -> None:
    train_x, fit_x, train_y, fit_y = train_test_split(X, NAMES, random_state=1)
    frozen = FrozenEstimator(LogisticRegression(C=100).fit(train_x[:100], train_y[:100]))
    coefficients = frozen.estimator.coef_.copy()
    ours = CalibratedClassifier(frozen, method="temperature").fit(fit_x, fit_y)
    theirs = CalibratedClassifierCV(frozen, method="temperature").fit(fit_x, fit_y)
    np.testing.assert_allclose(ours.predict_proba(fit_x), theirs.predict_proba(fit_x), atol=1e-4)
    assert ours.map_.temperature > 1.05
    assert (frozen.estimator.coef_ == coefficients).all()
    # a frozen estimator may know classes that the samples lack, and one may calibrate again what is calibrated
    few = fit_y != "cat"
    assert CalibratedClassifier(frozen).fit(fit_x[few], fit_y[few]).predict_proba(fit_x).shape == (len(fit_x), 3)
    CalibratedClassifierCV(FrozenEstimator(ours), method="isotonic").fit(fit_x, fit_y)


def test_digits_by_hand() -> None:
    x, y = load_digits(return_X_y=True)
    ours = CalibratedClassifier(LinearSVC(), cv=2).fit(x[:1000] / 16, y[:1000])
    logits = torch.from_numpy(ours.estimator_.decision_function(x[1000:] / 16))
    np.testing.assert_array_equal(ours.decision_function(x[1000:] / 16), ours.map_(logits).numpy())
    truth = torch.from_numpy(y[1000:])
    by_hand = ece(Predictions.from_probabilities(torch.from_numpy(ours.predict_proba(x[1000:] / 16)), truth))
    assert scorer("ece")(ours, x[1000:] / 16, y[1000:]) == -float(by_hand)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Unknown post-hoc map 'temprature'. Did you mean 'temperature'\?"):
        CalibratedClassifier(method="temprature").fit(X, Y)
    with pytest.raises(ValueError, match="`y` must hold at least 2 classes, got 1 class, 0"):
        CalibratedClassifier().fit(X[:9], np.zeros(9, dtype=int))
    with pytest.raises(ValueError, match="every class twice at least, got 1 sample of class cat"):
        CalibratedClassifier().fit(X[:3], ["ant", "ant", "cat"])
    with pytest.raises(ValueError, match="`estimator` must have predict_proba, got RidgeClassifier"):
        CalibratedClassifier(RidgeClassifier(), response_method="predict_proba").fit(X, Y)
    with pytest.raises(
        ValueError, match="`response_method` must be 'auto', 'decision_function' or 'predict_proba', got 'x'"
    ):
        CalibratedClassifier(response_method="x").fit(X, Y)
    four = np.arange(len(Y)) % 4
    pairs = FrozenEstimator(SVC(decision_function_shape="ovo").fit(X[:200], four[:200]))
    with pytest.raises(ValueError, match=r"each of 4 classes a score, got decision_function of shape \[200, 6\]"):
        CalibratedClassifier(pairs).fit(X[:200], four[:200])
    frozen = FrozenEstimator(LogisticRegression().fit(X, Y))
    with pytest.raises(ValueError, match="`y` must hold the classes 0, 1, 2 only, got 5 among them"):
        CalibratedClassifier(frozen).fit(X, Y + 5)
    with pytest.raises(ValueError, match="must hold one class per sample, got multi-label targets"):
        CalibratedClassifier().fit(X, np.eye(3, dtype=int)[Y])


def test_scorers_in_cross_validation_and_grid_search() -> None:
    found = cross_validate(
        CalibratedClassifier(GaussianNB()),
        X,
        NAMES,
        cv=3,
        scoring={"ece": scorer("ece", num_bins=10), "accuracy": scorer("accuracy"), "theirs": "accuracy"},
        error_score="raise",
    )
    assert (found["test_ece"] < 0).all()
    np.testing.assert_allclose(found["test_accuracy"], found["test_theirs"], atol=1e-12)
    search = GridSearchCV(
        CalibratedClassifier(GaussianNB(), cv=2),
        {"method": ["platt", "dirichlet"], "estimator__var_smoothing": [1e-9, 1e-3]},
        scoring=scorer("sm_ece"),
        cv=2,
        error_score="raise",
    ).fit(X[:600], NAMES[:600])
    assert search.best_score_ == max(search.cv_results_["mean_test_score"]) < 0


@pytest.mark.parametrize("name", [name for name, metric in METRICS.items() if metric.higher_is_better is not None])
def test_scores_are_the_metrics_with_larger_better(name: str) -> None:
    model = LogisticRegression().fit(X, NAMES)
    good, bad = scorer(name)(model, X, NAMES), scorer(name)(model, X, np.roll(NAMES, 1))
    assert good > bad or name == "ue"  # wrong labels make nobody underconfident
    wanted = make_scorer(calibration_error, metric=name, response_method="predict_proba", greater_is_better=False)
    assert wanted(model, X, NAMES) == pytest.approx(-good if METRICS[name].higher_is_better else good, abs=1e-12)


def test_make_scorer_of_two_classes() -> None:
    keep = Y < 2
    model = LogisticRegression().fit(X[keep], NAMES[keep])
    by_make_scorer = make_scorer(calibration_error, response_method="predict_proba", greater_is_better=False)
    assert by_make_scorer(model, X[keep], NAMES[keep]) == pytest.approx(scorer("ece")(model, X[keep], NAMES[keep]))


def test_scores_refuse_what_is_none() -> None:
    model = LogisticRegression().fit(X, NAMES)
    ants = NAMES == "ant"
    assert scorer("ece")(model, X[ants], NAMES[ants]) < 0  # a fold with one class only
    with pytest.raises(ValueError, match="must name the class of each of 3 columns of `y_prob`, got 1: ant"):
        calibration_error(NAMES[ants], model.predict_proba(X[ants]))
    with pytest.raises(ValueError, match="must have a better side to be a score, got 'entropy'"):
        scorer("entropy")
    with pytest.raises(ValueError, match=r"Unknown metric 'ecce'. Did you mean 'ece'"):
        scorer("ecce")
    with pytest.raises(ValueError, match="must have predict_proba, got RidgeClassifier"):
        scorer("ece")(RidgeClassifier().fit(X, NAMES), X, NAMES)
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
        calibration_error(Y, LogisticRegression().fit(X, Y).decision_function(X))
    assert repr(scorer("ece", num_bins=10)) == "scorer('ece', num_bins=10)"
