"""The study that takes margins and curvature apart: a real run, and claims on numbers made up."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from surefoot.runs.folder import RunFolder
from surefoot.runs.run import run
from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Row, Trajectory
from surefoot.studies.claim import Verdict
from surefoot.studies.study import read_study
from surefoot_papers.too_sharp import decoupling

REPRODUCED, NOT_SEEN, INCONCLUSIVE = Verdict.REPRODUCED, Verdict.NOT_SEEN, Verdict.INCONCLUSIVE

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
    (table,) = decoupling.outcome([Trajectory.of(spec, rows)]).tables
    assert [row[1] for row in table.rows] == [0.5, 1.0, 2.0]


def test_what_is_not_homogeneous_is_refused_before_it_trains(tmp_path: Path) -> None:
    spec = RunSpec.from_dict({**TREE, "model": {"name": "mlp", "widths": [16], "activation": "tanh"}})
    ended = run(spec, RunFolder(tmp_path / "run"))
    assert (ended.status, RunFolder(tmp_path / "run").rows()[0]) == ("failed", [])
    assert "got Tanh" in ended.reason


def made(seed: int, *, train: float, test: float, same: float = 1.0) -> Trajectory:
    row: Row = {"step": 30, "gradients": 30}
    for factor, by in (("times-0.5", -0.5), ("times-1", 0.0), ("times-2", 1.0)):
        row |= {f"{factor}/train_ece": 0.1 + by * train, f"{factor}/test_ece": 0.1 + by * test}
        row |= {f"{factor}/test_nll": 1.0 + by * test, f"{factor}/same": same if by > 0 else by == 0}
    return Trajectory.of(replace(RunSpec.from_dict(TREE), seed=seed), [row])


def test_claims_follow_the_numbers() -> None:
    runs = [made(seed, train=-0.05 - 0.001 * seed, test=0.08 + 0.001 * seed) for seed in range(3)]
    claims = decoupling.outcome(runs).claims
    assert [claim.verdict for claim in claims] == [REPRODUCED, NOT_SEEN, *[REPRODUCED] * 3]
    assert [claim.measured for claim in claims[:2]] == ["in 3 of 3 runs", "in 0 of 3 runs"]
    assert [(claim.estimate, claim.n, claim.unit) for claim in claims[:2]] == [(1.0, (3,), "runs"), (0.0, (3,), "runs")]
    assert claims[2].measured.startswith("-0.0510 [")
    assert (claims[2].id, claims[2].estimate) == ("follows-margins/train/ece", pytest.approx(-0.051))
    other = [made(seed, train=0.05 + 0.001 * seed, test=0.0, same=1.0 - (seed == 2)) for seed in range(3)]
    claims = decoupling.outcome(other).claims
    assert [claim.verdict for claim in claims] == [*[NOT_SEEN] * 3, *[INCONCLUSIVE] * 2]
    assert claims[2].measured.endswith("(n=2)")


def test_a_copy_that_was_not_measured_is_left_out() -> None:
    runs = [made(seed, train=-0.05 - 0.001 * seed, test=0.08) for seed in range(3)]
    blank = {key: np.full(1, math.nan) for key in runs[0].columns if key.startswith("times-2/")}
    runs[0] = replace(runs[0], columns={**runs[0].columns, **blank})
    claims = {claim.id: claim for claim in decoupling.outcome(runs).claims}
    assert claims["reachable/twice-the-margins"].measured == "in 2 of 2 runs"
    assert claims["follows-margins/test/ece"].n == (2,)


def test_every_family_has_a_rule_in_the_study_s_file() -> None:
    families = {claim.family for claim in decoupling.outcome([made(0, train=0.1, test=0.1)]).claims}
    assert families == {rule.family for rule in read_study("decoupling").rules}


def test_a_run_without_the_observer_is_refused() -> None:
    blind = replace(RunSpec.from_dict(TREE), observers={"calibration": {}})
    with pytest.raises(ValueError, match="needs the observer decoupling"):
        decoupling.check(blind)
