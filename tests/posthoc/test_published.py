"""Numbers that others published for the logits of a DenseNet-40 on CIFAR-10 (Kull et al. 2019)."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from surefoot.metrics import ece, nll
from surefoot.posthoc import Temperature, tce
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
