from typing import Any

import pytest
import torch

from surefoot.ensembles import DeepEnsemble, MCDropout
from surefoot.runs.build import build, check
from surefoot.runs.spec import RunSpec
from surefoot.training.loop import train
from surefoot.training.schedule import Schedule

DATA = {"name": "digits", "num_train": 60}
OPTIONS = {
    "single": {},
    "deep_ensemble": {"num_members": 2},
    "mc_dropout": {"rate": 0.2, "num_samples": 3},
    "batch_ensemble": {"num_members": 2},
    "mimo": {"num_members": 2, "batch_repetitions": 2},
    "variational": {"num_samples": 2},
    "rank1": {"num_members": 2},
    "swag": {"num_samples": 3, "start": 0.25},
}


def spec(name: str, optimizer: str = "sgd", **changes: Any) -> RunSpec:
    tree = {
        "optimizer": {"name": optimizer, "lr": 0.1},
        "budget": 40,
        "batch_size": 20,
        "data": DATA,
        "model": {"name": "mlp", "widths": [16]},
        "ensemble": {"name": name, **OPTIONS.get(name, {})},
        "observers": {"curvature": False},
        **changes,
    }
    return RunSpec.from_dict(tree)


@pytest.mark.parametrize("optimizer", ["sgd", "csam", "muon"])
@pytest.mark.parametrize("name", OPTIONS)
def test_every_ensemble_trains_in_a_run_with_any_optimizer(name: str, optimizer: str) -> None:
    training = build(spec(name, optimizer, loss={"name": "focal"}))
    rows: list[dict[str, float]] = []
    train(training, budget=80, schedule=Schedule(every=100, per_decade=0), record=rows.append)
    assert rows[-1]["train/nll"] < rows[0]["train/nll"]
    again = build(spec(name, optimizer, loss={"name": "focal"}))
    others: list[dict[str, float]] = []
    train(again, budget=80, schedule=Schedule(every=100, per_decade=0), record=others.append)
    assert rows == others


def test_members_start_apart_and_dropout_is_put_in() -> None:
    deep = build(spec("deep_ensemble")).model
    assert isinstance(deep, DeepEnsemble)
    first, second = (next(model.parameters()) for model in deep.models)
    assert not torch.equal(first, second)
    assert isinstance(build(spec("mc_dropout")).model, MCDropout)


def test_what_does_not_combine_is_refused_before_any_work() -> None:
    validated = {**DATA, "num_validation": 10}
    for changes, message in (
        ({"observers": {}}, "observer curvature needs the curvature of a loss, and mimo has several"),
        ({"loss": {"name": "mixup"}}, "mixup is none"),
        ({"loss": {"name": "adafocal"}, "data": validated}, "adafocal remembers the outputs of one model"),
        ({"optimizer": "bulk_sgd"}, "bulk_sgd needs the curvature"),
    ):
        with pytest.raises(ValueError, match=message):
            check(spec("mimo", **changes))


@pytest.mark.parametrize(
    ("ensemble", "message"),
    [
        ({"name": "deep_ensembel"}, "Unknown ensemble 'deep_ensembel'. Did you mean 'deep_ensemble'"),
        ({"name": "mimo", "members": 3}, "members"),
        ({"name": "variational", "num_train": 3}, "num_train"),
        ({"name": "single", "num_members": 3}, "num_members"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(ensemble: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check(spec("single", ensemble=ensemble))
