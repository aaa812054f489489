import math
from dataclasses import replace

import numpy as np
import pytest

from surefoot.runs.spec import Part, RunSpec
from surefoot.runs.trajectory import Row, Trajectory
from surefoot.studies.claim import Verdict
from surefoot.studies.correlation import (
    PAIRS,
    all_above_zero,
    correlation_claim,
    correlation_of,
    pearson,
    positive,
    ranks,
    spearman,
)
from surefoot.studies.intervals import t_interval
from surefoot_papers.too_sharp.coupling.analysis import correlations, outcome


def trajectory(lr: float, seed: int = 0, *, sign: float = 1.0, optimizer: str = "gd") -> Trajectory:
    """Sharpness rises and falls over 100 steps; train ECE goes along with `sign`; interpolation at step 60."""
    spec = RunSpec.from_dict(
        {
            "optimizer": {"name": optimizer, "lr": lr},
            "budget": 100,
            "seed": seed,
            "schedule": {"every": 10, "per_decade": 5},
        }
    )
    rows: list[Row] = []
    for step in [s for s in range(101) if spec.schedule(s)]:
        hump = math.sin(math.pi * step / 100) + 1e-3
        row: Row = {"step": step, "train/margin_min": float(step - 59)}
        for split in ("train", "test"):
            row |= {f"{split}/{name}": 0.5 + sign * hump / 4 for name in ("ece", "kce")}
            row |= {f"{split}/ggn_sharpness": hump, f"{split}/accuracy": 1.0, f"{split}/confidence": 0.75}
        row["test/ece"] = float(step)
        rows.append(row)
    return Trajectory.of(spec, rows)


def test_pearson_is_numpys_and_knows_when_it_is_not_defined() -> None:
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(2, 30))
    spec = trajectory(0.1).spec
    run = Trajectory(spec, {"x": x, "y": y, "constant": np.ones(30), "missing": np.full(30, math.nan)}, 30)
    assert pearson(run, "x", "y") == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert spearman(run, "x", "y") == pytest.approx(np.corrcoef(ranks(x.tolist()), ranks(y.tolist()))[0, 1])
    assert pearson(run, "x", "constant") is None
    assert pearson(run.part(slice(4)), "x", "y") is None
    assert pearson(run, "x", "missing") is None
    gaps = Trajectory(spec, {"x": np.where(np.arange(30) < 10, math.nan, x), "y": y}, 30)
    assert pearson(gaps, "x", "y") == pytest.approx(np.corrcoef(x[10:], y[10:])[0, 1])  # the steps that have both


def test_samplings_and_windows_choose_the_right_rows() -> None:
    run = trajectory(0.1)
    assert run.interpolated == 60
    assert run.window("equal", "whole").steps.tolist() == list(range(0, 101, 10))
    assert run.window("log", "whole").steps.tolist() == [0, 1, 2, 3, 4, 6, 10, 16, 25, 40, 63, 100]
    assert run.window("equal", "before").steps.tolist() == [0, 10, 20, 30, 40, 50, 60]
    assert run.window("equal", "after").steps.tolist() == [60, 70, 80, 90, 100]
    assert run.window("equal", "first 50 %").steps.tolist() == [0, 10, 20, 30, 40, 50]


def test_the_mean_is_over_learning_rates_each_the_mean_over_seeds() -> None:
    runs = [trajectory(0.1), trajectory(0.1, 1, sign=-1.0), trajectory(0.2), trajectory(0.2, 1)]
    item = correlation_of([*runs, trajectory(0.3, optimizer="sgd")], "gd", ("train", "ece", "train"))
    assert item.by_lr == pytest.approx({"0.1": 0.0, "0.2": 1.0})
    assert (item.mean, item.n, item.num_runs) == (pytest.approx(0.5), 2, 4)
    assert item.std == pytest.approx(math.sqrt(0.5))
    assert item.interval == (-1.0, 1.0)  # cut to what a correlation can be
    claim = correlation_claim("correlates/gd", "r > 0", [item], verdict=positive([item]))
    assert (claim.estimate, claim.low, claim.high, claim.n) == (item.mean, -1.0, 1.0, (2,))
    assert claim.measured == "equally spaced steps: 0.5 ± 0.7 (n=2) [-1.00, 1.00]"
    assert claim.verdict is Verdict.INCONCLUSIVE


def test_t_interval_by_hand() -> None:
    low, high = t_interval([0.1, 0.2, 0.3]) or (0, 0)
    assert (low + high) / 2 == pytest.approx(0.2)
    assert (high - low) / 2 == pytest.approx(4.302652729 * 0.1 / math.sqrt(3))
    assert t_interval([0.5]) is None
    assert t_interval([-1.0, 1.0], limits=(-1.0, 1.0)) == (-1.0, 1.0)


def test_verdicts() -> None:
    above, below, across = (0.1, 0.9), (-0.9, -0.1), (-0.1, 0.9)
    assert all_above_zero([above, above]) is Verdict.REPRODUCED
    assert all_above_zero([below, below]) is Verdict.NOT_SEEN
    for undecided in ([above, below], [above, across], [above, None], [None, None]):
        assert all_above_zero(undecided) is Verdict.INCONCLUSIVE


def test_outcome_says_what_was_put_in() -> None:
    runs = [trajectory(lr, seed) for lr in (0.1, 0.2, 0.3) for seed in (0, 1)]
    assert outcome(runs).tables[0].columns == ("calibration error", "sharpness", "gd")
    runs = [replace(run, spec=replace(run.spec, data=Part("cifar10-5k"))) for run in runs]  # the paper's data
    result = outcome(runs)
    first = result.tables[0]
    assert first.columns == ("calibration error", "sharpness", "gd", "gd, paper")
    assert first.rows[0][2] == correlation_of(runs, "gd", PAIRS[0]).estimate
    assert correlation_of(runs, "gd", PAIRS[0]).mean == pytest.approx(1.0)
    assert first.rows[0][3] == "0.83 ± 0.08"
    pairs = [pair for pair in PAIRS if pair[2] != "batch"]  # what no run has measured is left out
    assert len(correlations(runs, ["gd"])) == len(pairs) * 2 * 6
    assert not any("batch sharpness" in str(row) for table in result.tables for row in table.rows)
    claims = {claim.id: claim.verdict for claim in result.claims}
    assert claims["correlates/train-ece/train/gd"] is Verdict.REPRODUCED


def test_outcome_of_nothing_is_empty_not_an_error() -> None:
    result = outcome([])
    assert correlations([], []) == {}
    assert not any(table.rows for table in result.tables)
    assert {claim.verdict for claim in result.claims} == {Verdict.INCONCLUSIVE}
