"""SWAG and draws from bSAM inside a run."""

from pathlib import Path
from typing import Any

import pytest
import torch

from surefoot.ensembles import SWAG, BSAMSampling
from surefoot.metrics import nll
from surefoot.predictions import Predictions
from surefoot.runs._collect_weights import CollectionSchedule
from surefoot.runs.build import build, check
from surefoot.runs.control import RunControl
from surefoot.runs.folder import RunFolder
from surefoot.runs.restored_training import restored_training
from surefoot.runs.run import run
from surefoot.runs.spec import RunSpec
from surefoot.training.loop import Training

ENSEMBLES: dict[str, dict[str, Any]] = {
    "swag": {"name": "swag", "num_samples": 3, "max_rank": 2, "start": 0.5, "every": 2},
    "bsam": {"name": "bsam", "num_samples": 3},
}
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "swag": {"name": "sgd", "lr": 0.1, "momentum": 0.9},
    "bsam": {"name": "bsam", "lr": 0.2},
}
BOTH = pytest.mark.parametrize("name", ENSEMBLES)


def spec(name: str, **changes: Any) -> RunSpec:
    tree = {
        "optimizer": OPTIMIZERS[name],
        "ensemble": ENSEMBLES[name],
        "budget": 12 if name == "swag" else 24,
        "batch_size": 20,
        "data": {"name": "digits", "num_train": 100, "images": True},
        "model": {"name": "cnn", "widths": [4, 8]},
        "schedule": {"every": 1, "per_decade": 0},
        "observers": {"curvature": False},
        **changes,
    }
    return RunSpec.from_dict(tree)


def stepped(training: Training, number: int) -> list[dict[str, float]]:
    rows = [training.observe()]
    for _ in range(number):
        training.advance()
        rows.append(training.observe())
    return rows


@BOTH
def test_interrupted_at_every_step_ends_with_the_same_bytes(name: str, tmp_path: Path) -> None:
    whole, pieces = (RunFolder(tmp_path / each) for each in ("whole", "pieces"))
    assert run(spec(name), whole).status == "done"
    calls = 0
    while run(spec(name), pieces, control=RunControl(should_stop=lambda: True)).status != "done":
        calls += 1
    assert calls == 12
    assert pieces.metrics.read_bytes() == whole.metrics.read_bytes()
    one, other = (restored_training(folder.path)[0].model for folder in (whole, pieces))
    inputs = torch.randn(5, 1, 8, 8)
    assert torch.equal(one.eval()(inputs), other.eval()(inputs))


@BOTH
def test_training_goes_on_as_if_nothing_were_collected(name: str) -> None:
    alone, watched = build(spec(name, ensemble={"name": "single"})), build(spec(name))
    plain, rows = stepped(alone, 12), stepped(watched, 12)
    assert isinstance(watched.model, SWAG | BSAMSampling)
    for key, value in alone.model.state_dict().items():
        assert torch.equal(watched.model.model.state_dict()[key], value), key
    first = 6 if name == "swag" else 1
    for step, (one, other) in enumerate(zip(plain, rows, strict=True)):
        if step < first:  # the model speaks, through a logarithm of its probabilities
            assert one["test/nll"] == pytest.approx(other["test/nll"], rel=1e-5)
        else:
            assert one["test/nll"] != pytest.approx(other["test/nll"], rel=1e-5)
    assert alone.after_step is None


def test_swag_in_a_run_is_the_one_fed_by_hand() -> None:
    training, alone = build(spec("swag")), build(spec("swag", ensemble={"name": "single"}))
    by_hand = SWAG(alone.model, num_samples=3, max_rank=2, batches=[alone.splits["train"].inputs])
    for step in range(1, 13):
        alone.advance()
        training.advance()
        if step in (6, 8, 10, 12):
            by_hand.collect(alone.model)
    assert int(by_hand.num_collected) == 4
    test = training.splits["test"]
    said = Predictions.from_probabilities(by_hand.predict(test.inputs), test.labels)
    assert training.observe()["test/nll"] == pytest.approx(float(nll(said)), rel=1e-5)


def test_bsam_in_a_run_has_the_deviations_of_the_optimizer() -> None:
    training = build(spec("bsam"))
    model = training.model
    assert isinstance(model, BSAMSampling)
    for _ in range(3):
        training.advance()
    wanted = [(100 * training.optimizer.state[p]["precision"]).rsqrt().flatten() for p in model.parameters()]
    assert torch.equal(model.stds, torch.cat(wanted))


def test_weights_are_counted_in_from_a_share_of_the_steps_on() -> None:
    assert list(CollectionSchedule(start=0.5, every=3).steps(num_steps=12, steps_per_epoch=5)) == [6, 9, 12]
    assert list(CollectionSchedule(start=0.5).steps(num_steps=20, steps_per_epoch=4)) == [12, 16, 20]
    assert list(CollectionSchedule(start=0.0, every=6).steps(num_steps=12, steps_per_epoch=5)) == [6, 12]
    training = build(spec("swag", optimizer={"name": "sam", "lr": 0.1, "rho": 0.05}))  # two gradients, so 6 steps
    stepped(training, 6)
    assert isinstance(training.model, SWAG)
    assert int(training.model.num_collected) == 2


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("swag", {"start": 1.0}, "`ensemble.start` must be at least 0 and below 1, got 1.0"),
        ("swag", {"every": 0}, "`ensemble.every` must be at least 1"),
        ("swag", {"every": 7}, "at least 2 sets of weights: of 12 steps from 0.5 of them on, every 7 are 1"),
        ("swag", {"model_first": False}, "model_first"),
        ("swag", {"from": 0.5}, "from"),
        ("bsam", {"start": 0.5}, "start"),
    ],
)
def test_bad_options_are_refused(name: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(spec(name, ensemble={**ENSEMBLES[name], **changes}))


def test_bsam_needs_the_optimizer_that_learns_its_gaussian() -> None:
    with pytest.raises(ValueError, match=r"and sgd learns none: set `optimizer\.name` to bsam"):
        check(spec("bsam", optimizer={"name": "sgd", "lr": 0.1}))


def test_robust_margins_of_draws_can_be_measured() -> None:
    training = build(spec("swag", observers={"curvature": False, "robust_margins": {"num_steps": 1}}))
    rows = stepped(training, 6)
    assert all(row["test/robust_failed"] == 0 for row in rows)
