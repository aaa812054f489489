"""Where other tools are wrong: what they say, and what is true. A failure here means that a peer was mended."""

import math
import warnings

import numpy as np
import pytest
import torch

from surefoot.metrics import ada_ece, ece, interval, sm_ece
from surefoot.posthoc import Temperature
from surefoot.predictions import Predictions


def binary(confidence: list[float] | np.ndarray, correct: list[int] | np.ndarray) -> Predictions:
    """Predictions of class 0 with these confidences, right where `correct` is 1."""
    top = torch.as_tensor(np.asarray(confidence, dtype=np.float64))
    return Predictions.from_probabilities(torch.stack([top, 1 - top], dim=1), 1 - torch.as_tensor(np.asarray(correct)))


def overconfident(n: int = 5000, *, sharper: float = 2.0) -> Predictions:
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(n, 4, generator=generator, dtype=torch.float64)
    return Predictions(sharper * logits, torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0])


def test_torchmetrics_has_a_bin_of_its_own_for_confidence_one() -> None:
    functional = pytest.importorskip("torchmetrics.functional.classification")
    p = binary([0.95, 1.0], [1, 0])
    theirs = functional.multiclass_calibration_error(p.probabilities, p.labels, num_classes=2, n_bins=10)
    assert theirs.item() == pytest.approx(0.525)
    assert ece(p, num_bins=10).item() == pytest.approx(0.475)  # both lie in (0.9, 1]


@pytest.mark.slow
def test_torchmetrics_loses_count_of_ten_million_samples() -> None:
    functional = pytest.importorskip("torchmetrics.functional.classification")
    n = 10_000_000
    rng = np.random.default_rng(0)
    confidence = rng.beta(8, 1, n).clip(0.5001, 0.9999)
    correct = (rng.random(n) < confidence).astype(np.int64)
    p = binary(confidence, correct)
    theirs = functional.multiclass_calibration_error(p.probabilities.float(), p.labels, num_classes=2, n_bins=15)
    assert theirs.item() > 0.005  # of a perfectly calibrated classifier
    assert ece(p).item() < 0.0005


def test_torchmetrics_takes_logits_between_0_and_1_for_probabilities() -> None:
    functional = pytest.importorskip("torchmetrics.functional.classification")
    logits = torch.rand(1000, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.randint(4, (1000,), generator=torch.Generator().manual_seed(1))
    theirs = functional.multiclass_calibration_error(logits, labels, num_classes=4)
    assert theirs.item() > 0.4
    assert ece(Predictions(logits, labels)).item() < 0.2


def test_torchmetrics_and_netcal_make_a_number_of_nan() -> None:
    functional = pytest.importorskip("torchmetrics.functional.classification")
    metrics = pytest.importorskip("netcal.metrics")
    p = overconfident(500)
    broken = p.probabilities.clone()
    broken[7] = math.nan
    theirs = functional.multiclass_calibration_error(broken, p.labels, num_classes=4)
    assert 0 < theirs.item() < 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert 0 < metrics.ECE(15).measure(broken.numpy(), p.labels.numpy()) < 1
    with pytest.raises(ValueError, match="NaN or inf in 1 rows, first in row 7"):
        Predictions.from_probabilities(broken, p.labels)


def test_relplot_halves_the_mass_at_one() -> None:
    relplot = pytest.importorskip("relplot")
    confidence = np.repeat([1.0, 0.8], 500)
    correct = np.concatenate([np.ones(500), np.arange(500) % 5 < 3]).astype(np.int64)
    assert relplot.smECE(confidence, correct) == pytest.approx(0.132, abs=0.002)
    assert sm_ece(binary(confidence, correct)).item() == pytest.approx(0.1, abs=0.001)  # all gaps of one sign: the mean


def test_netcal_leaves_float32_uncalibrated() -> None:
    scaling = pytest.importorskip("netcal.scaling")
    p = overconfident()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = scaling.TemperatureScaling()
        theirs.fit(p.probabilities.float().numpy(), p.labels.numpy())
    assert float(np.ravel(theirs.temperature)[0]) == pytest.approx(1.0)
    ours = Temperature.fit(Predictions(p.logits.float(), p.labels))
    assert ours.temperature == pytest.approx(2.0, rel=0.05)


def test_netcal_has_no_equal_mass_with_ties() -> None:
    metrics = pytest.importorskip("netcal.metrics")
    p = binary(np.repeat([1.0, 0.8], 500), (np.arange(1000) % 5 < 4).astype(np.int64))
    with pytest.raises(Exception, match="edge difference"):
        metrics.ECE(15, equal_intervals=False).measure(p.probabilities.numpy(), np.tile(p.labels.numpy(), 1))
    assert ada_ece(p).item() == pytest.approx(0.1)


def test_verified_calibration_has_the_wrong_level() -> None:
    calibration = pytest.importorskip("calibration")
    p = overconfident(300)

    def width(alpha: float) -> float:
        np.random.seed(0)
        low, _, high = calibration.get_calibration_error_uncertainties(
            p.probabilities.numpy(), p.labels.numpy(), alpha=alpha, mode="top-label"
        )
        return float(high - low)

    assert width(0.1) > 1.5 * width(10.0)  # what is said to be 90 % lies between the 0.05 and 99.95 percentiles
    wide, narrow = (interval("debiased_rms_ce", p, level=level) for level in (0.999, 0.9))
    assert wide.high - wide.low > 1.3 * (narrow.high - narrow.low)
