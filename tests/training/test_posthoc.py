import math

import pytest
import torch

from surefoot.data import Split
from surefoot.metrics import ece, nll
from surefoot.posthoc import Isotonic, tce
from surefoot.predictions import Predictions
from surefoot.runs.build import build, check
from surefoot.runs.spec import RunSpec
from surefoot.training.observers import PosthocObserver
from surefoot.training.snapshot import Snapshot

TREE = {
    "optimizer": {"name": "sgd", "lr": 0.5},
    "budget": 30,
    "data": {"name": "digits", "num_train": 200, "num_validation": 80},
    "model": {"name": "mlp", "widths": [20]},
    "observers": {"curvature": False, "posthoc": {"maps": ["temperature", "isotonic"]}},
}


def test_temperature_is_tce_and_others_are_their_maps() -> None:
    training = build(RunSpec.from_dict(TREE))
    for _ in range(30):
        training.advance()
    snapshot = Snapshot(30, training.model, training.objective, training.splits)
    validation, test = snapshot.predictions("validation"), snapshot.predictions("test")
    row = PosthocObserver(maps=("temperature", "isotonic"))(snapshot)
    assert row["test/ece_temperature"] == pytest.approx(float(tce(validation, test)))
    mapped = Predictions(Isotonic.fit(validation)(test.exact), test.labels)
    assert row["test/ece_isotonic"] == pytest.approx(float(ece(mapped)))
    assert row["test/nll_isotonic"] == pytest.approx(float(nll(mapped)))
    assert row["test/ece_temperature"] < float(ece(test))


def test_a_model_without_a_best_temperature_leaves_a_gap() -> None:
    training = build(RunSpec.from_dict(TREE))
    splits = training.splits
    with torch.no_grad():
        logits = training.model(splits["validation"].inputs)
    wrong = {**splits, "validation": Split(splits["validation"].inputs, logits.argmin(dim=1))}
    row = PosthocObserver(maps=("temperature", "isotonic"))(Snapshot(0, training.model, training.objective, wrong))
    assert math.isnan(row["test/ece_temperature"])
    assert math.isnan(row["test/nll_temperature"])
    assert 0 <= row["test/ece_isotonic"] <= 1


def test_needs_a_validation_split_and_known_maps() -> None:
    check(RunSpec.from_dict(TREE))
    with pytest.raises(ValueError, match=r"observer posthoc needs a validation split: set `data\.num_validation`"):
        check(RunSpec.from_dict({**TREE, "data": {"name": "digits"}}))
    with pytest.raises(ValueError, match=r"Unknown post-hoc map 'temprature'\. Did you mean 'temperature'"):
        PosthocObserver(maps=("temprature",))
    with pytest.raises(ValueError, match="at least one"):
        PosthocObserver(maps=())
