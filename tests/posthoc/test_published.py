"""Numbers that others got from the logits of a DenseNet-40 on CIFAR-10 (Kull et al. 2019)."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from surefoot.metrics import ece, nll
from surefoot.posthoc import SMS, SVS, Dirichlet, Temperature, tce
from surefoot.predictions import Predictions


@pytest.fixture(scope="module")
def splits() -> tuple[Predictions, Predictions]:
    path = Path(os.environ.get("SUREFOOT_DATA", "")) / "densenet40_c10_logits.npz"
    if not path.is_file():
        pytest.skip("SUREFOOT_DATA does not name a folder with densenet40_c10_logits.npz")
    with np.load(path) as data:
        validation, test = (
            Predictions(torch.from_numpy(data[f"logits_{split}"]), torch.from_numpy(data[f"y_{split}"]))
            for split in ("val", "test")
        )
    return validation, test


def test_temperature(splits: tuple[Predictions, Predictions]) -> None:
    validation, test = splits
    fitted = Temperature.fit(validation)
    calibrated = Predictions(fitted(test.exact), test.labels)
    assert fitted.temperature == pytest.approx(2.883, abs=5e-4)
    assert ece(test).item() == pytest.approx(0.0550, abs=5e-5)
    assert ece(calibrated).item() == pytest.approx(0.00946, abs=5e-6)
    assert nll(calibrated).item() == pytest.approx(0.2251, abs=5e-5)
    assert tce(validation, test).item() == pytest.approx(0.00946, abs=5e-6)


@pytest.mark.parametrize(("kind", "expected"), [(SVS, 0.22218), (SMS, 0.22062)])
def test_structured_scaling_agrees_with_its_authors(
    splits: tuple[Predictions, Predictions], kind: type[SVS | SMS], expected: float
) -> None:
    validation, test = splits
    calibrated = Predictions(kind.fit(validation)(test.exact), test.labels)
    assert nll(calibrated).item() == pytest.approx(expected, abs=2e-5)  # probmetrics 1.3.0, which works in float32


def test_dirichlet(splits: tuple[Predictions, Predictions]) -> None:
    validation, test = splits
    calibrated = Predictions(Dirichlet.fit(validation)(test.exact), test.labels)
    assert ece(calibrated).item() == pytest.approx(0.0110, abs=1e-3)  # theirs has another penalty's strength
