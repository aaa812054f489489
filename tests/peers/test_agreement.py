"""Where other tools are right, the same numbers."""

import numpy as np
import pytest
import sklearn.metrics
import torch
from sklearn.calibration import calibration_curve

from surefoot.metrics import (
    ada_ece,
    auroc_correct,
    auroc_ovr,
    brier,
    classwise_ece,
    debiased_rms_ce,
    ece,
    interval,
    kce,
    mce,
    mmce,
    nll,
    reliability,
    sm_ece,
)
from surefoot.predictions import Predictions


@pytest.fixture(scope="module")
def p() -> Predictions:
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(3000, 4, generator=generator, dtype=torch.float64)
    return Predictions(logits, torch.multinomial((0.7 * logits).softmax(dim=1), 1, generator=generator)[:, 0])


def test_scikit_learn(p: Predictions) -> None:
    probabilities, labels = p.probabilities.numpy(), p.labels.numpy()
    assert nll(p).item() == pytest.approx(sklearn.metrics.log_loss(labels, probabilities))
    assert auroc_ovr(p).item() == pytest.approx(sklearn.metrics.roc_auc_score(labels, probabilities, multi_class="ovr"))
    correct, confidence = p.correct.numpy(), p.confidence.numpy()
    assert auroc_correct(p).item() == pytest.approx(sklearn.metrics.roc_auc_score(correct, confidence))
    assert brier(p).item() == pytest.approx(
        sklearn.metrics.brier_score_loss(labels, probabilities, scale_by_half=False)
    )
    accuracy, mean = calibration_curve(correct, confidence, n_bins=15)
    held = [each for each in reliability(p) if each.count]
    assert [each.accuracy for each in held] == pytest.approx(accuracy)
    assert [each.confidence for each in held] == pytest.approx(mean)


def test_netcal(p: Predictions) -> None:
    metrics = pytest.importorskip("netcal.metrics")
    probabilities, labels = p.probabilities.numpy(), p.labels.numpy()
    assert ece(p).item() == pytest.approx(metrics.ECE(15).measure(probabilities, labels))
    assert mce(p).item() == pytest.approx(metrics.MCE(15).measure(probabilities, labels))
    assert mmce(p).item() == pytest.approx(metrics.MMCE().measure(probabilities, labels))


def test_verified_calibration(p: Predictions) -> None:
    calibration = pytest.importorskip("calibration")
    probabilities, labels = p.probabilities.numpy(), p.labels.numpy()
    assert ece(p).item() == pytest.approx(calibration.get_ece(probabilities, labels, num_bins=15))
    assert ada_ece(p).item() == pytest.approx(calibration.get_ece_em(probabilities, labels, num_bins=15))
    width = {"num_bins": 15, "binning_scheme": calibration.get_equal_prob_bins}
    theirs = calibration.lower_bound_scaling_ce(probabilities, labels, p=1, debias=False, mode="marginal", **width)
    assert classwise_ece(p).item() == pytest.approx(theirs)
    theirs = calibration.lower_bound_scaling_ce(probabilities, labels, p=2, debias=True, mode="top-label", **width)
    assert debiased_rms_ce(p).item() == pytest.approx(theirs)


def test_probcal(p: Predictions) -> None:
    metrics = pytest.importorskip("probcal.metrics")
    correct, confidence = p.correct.double().numpy(), p.confidence.numpy()
    assert ece(p).item() == pytest.approx(metrics.ece(correct, confidence, n_bins=15, strategy="width"))
    assert ada_ece(p).item() == pytest.approx(metrics.ece(correct, confidence, n_bins=15, strategy="mass"), rel=0.02)
    smooth = metrics.smooth_ece(correct, confidence)  # lets the Gaussian run over the ends instead of reflecting it
    assert sm_ece(p).item() == pytest.approx(smooth, rel=0.02)
    theirs = metrics.skce(correct, confidence, estimator="biased", bandwidth=0.2)
    assert 2 * kce(p).item() ** 2 == pytest.approx(theirs)  # theirs is that of the vector (p, 1 - p)


def test_torchmetrics_on_few_samples_without_edges(p: Predictions) -> None:
    functional = pytest.importorskip("torchmetrics.functional.classification")
    theirs = functional.multiclass_calibration_error(p.probabilities, p.labels, num_classes=4, n_bins=15)
    assert ece(p).item() == pytest.approx(theirs.item(), rel=1e-6)


def test_delong(p: Predictions) -> None:
    """The interval of the AUROC against the spread over bootstrap samples, from scikit-learn."""
    correct, confidence = p.correct.numpy(), p.confidence.numpy()
    rng = np.random.default_rng(0)
    again = [rng.integers(0, 3000, 3000) for _ in range(300)]
    spread = np.std([sklearn.metrics.roc_auc_score(correct[k], confidence[k]) for k in again])
    found = interval("auroc_correct", p)
    assert (found.high - found.low) / (2 * 1.96) == pytest.approx(spread, rel=0.15)
