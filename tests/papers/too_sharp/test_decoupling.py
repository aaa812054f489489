"""The study that takes margins and curvature apart: a real run, and claims on numbers made up."""

from dataclasses import replace
from pathlib import Path

import pytest

from surefoot.runs.folder import RunFolder
from surefoot.runs.run import run
from surefoot.runs.spec import RunSpec
from surefoot.studies.correlation import Trajectory
from surefoot_papers.too_sharp.decoupling import analysis as decoupling

TREE = {
    "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9},
    "budget": 30,
    "batch_size": 50,
    "data": {"name": "digits", "num_train": 200},
    "model": {"name": "mlp", "widths": [16, 16], "activation": "relu"},
    "schedule": {"every": 15, "per_decade": 0},
    "observers": {"curvature": False, "decoupling": {"factors": [0.5, 1.0, 2.0]}},
}


def test_a_run_measures_its_copies_at_the_end(tmp_path: Path) -> None:
    spec = RunSpec.from_dict(TREE)
    decoupling.check(spec)
    assert run(spec, RunFolder(tmp_path / "run")).status == "done"
    rows, _ = RunFolder(tmp_path / "run").rows()
    assert not [key for key in rows[0] if key.startswith("times-")]
    last = rows[-1]
    assert last["times-1/balance"] == 1
    assert last["times-1/train_ece"] == pytest.approx(last["train/ece"])
    assert last["times-0.5/train_margin"] == pytest.approx((last["train/margin_mean"] or 0) / 2, rel=1e-5)
    assert last["times-2/same"] == 1
    assert last["times-2/sharpness"] == pytest.approx(1, abs=0.01)
    found = decoupling.outcome([Trajectory(spec, rows)])
    assert [row[1] for row in found["tables"][0].rows] == [0.5, 1.0, 2.0]


def test_what_is_not_homogeneous_is_refused_before_it_trains(tmp_path: Path) -> None:
    spec = RunSpec.from_dict({**TREE, "model": {"name": "mlp", "widths": [16], "activation": "tanh"}})
    ended = run(spec, RunFolder(tmp_path / "run"))
    assert (ended.status, RunFolder(tmp_path / "run").rows()[0]) == ("failed", [])
    assert "got Tanh" in ended.reason


def made(seed: int, *, train: float, test: float, same: float = 1.0) -> Trajectory:
    row: dict[str, float | None] = {"step": 30, "gradients": 30}
    for factor, by in (("times-0.5", -0.5), ("times-1", 0.0), ("times-2", 1.0)):
        row |= {f"{factor}/train_ece": 0.1 + by * train, f"{factor}/test_ece": 0.1 + by * test}
        row |= {f"{factor}/test_nll": 1.0 + by * test, f"{factor}/same": same if by > 0 else by == 0}
    return Trajectory(replace(RunSpec.from_dict(TREE), seed=seed), [row])


def test_claims_follow_the_numbers() -> None:
    runs = [made(seed, train=-0.05 - 0.001 * seed, test=0.08 + 0.001 * seed) for seed in range(3)]
    claims = decoupling.outcome(runs)["claims"].rows
    assert [row[-1] for row in claims] == ["holds", "does not hold", *["holds"] * 3]
    assert [row[1] for row in claims[:2]] == ["in 3 of 3 runs", "in 0 of 3 runs"]
    assert str(claims[2][1]).startswith("-0.0510 [")
    other = [made(seed, train=0.05 + 0.001 * seed, test=0.0, same=1.0 - (seed == 2)) for seed in range(3)]
    claims = decoupling.outcome(other)["claims"].rows
    assert [row[-1] for row in claims] == [*["does not hold"] * 3, *["cannot tell at this scale"] * 2]
    assert str(claims[2][1]).endswith("(n=2)")


def test_a_run_without_the_observer_is_refused() -> None:
    blind = replace(RunSpec.from_dict(TREE), observers={"calibration": {}})
    with pytest.raises(ValueError, match="needs the observer decoupling"):
        decoupling.check(blind)
