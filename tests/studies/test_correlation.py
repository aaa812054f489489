import math

import numpy as np
import pytest

from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Row
from surefoot.studies.correlation import PAIRS, Trajectory, correlation, pearson, t_interval, verdict
from surefoot_papers.too_sharp.coupling.analysis import outcome


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
    return Trajectory(spec, rows)


def test_pearson_is_numpys_and_knows_when_it_is_not_defined() -> None:
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(2, 30))
    rows: list[Row] = [{"x": float(a), "y": float(b), "c": 1.0} for a, b in zip(x, y, strict=True)]
    assert pearson(rows, "x", "y") == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert pearson(rows, "x", "c") is None
    assert pearson(rows[:4], "x", "y") is None
    assert pearson([{**row, "y": None} for row in rows], "x", "y") is None


def test_samplings_and_windows_choose_the_right_rows() -> None:
    run = trajectory(0.1)
    assert run.interpolated == 60
    assert [row["step"] for row in run.chosen("equal", "whole")] == list(range(0, 101, 10))
    assert [row["step"] for row in run.chosen("log", "whole")] == [0, 1, 2, 3, 4, 6, 10, 16, 25, 40, 63, 100]
    assert [row["step"] for row in run.chosen("equal", "before")] == [0, 10, 20, 30, 40, 50, 60]
    assert [row["step"] for row in run.chosen("equal", "after")] == [60, 70, 80, 90, 100]
    assert [row["step"] for row in run.chosen("equal", "first 50 %")] == [0, 10, 20, 30, 40, 50]


def test_the_mean_is_over_learning_rates_each_the_mean_over_seeds() -> None:
    runs = [trajectory(0.1), trajectory(0.1, 1, sign=-1.0), trajectory(0.2), trajectory(0.2, 1)]
    found = correlation([*runs, trajectory(0.3, optimizer="sgd")], "gd", ("train", "ece", "train"))
    assert found.by_lr == pytest.approx({"0.1": 0.0, "0.2": 1.0})
    assert (found.mean, found.n, found.num_runs) == (pytest.approx(0.5), 2, 4)
    assert found.std == pytest.approx(math.sqrt(0.5))


def test_t_interval_by_hand() -> None:
    low, high = t_interval([0.1, 0.2, 0.3]) or (0, 0)
    assert (low + high) / 2 == pytest.approx(0.2)
    assert (high - low) / 2 == pytest.approx(4.302652729 * 0.1 / math.sqrt(3))
    assert t_interval([0.5]) is None
    assert t_interval([-1.0, 1.0]) == (-1.0, 1.0)


def test_verdicts() -> None:
    above, below, across = (0.1, 0.9), (-0.9, -0.1), (-0.1, 0.9)
    assert verdict([above, above]) == "holds"
    assert verdict([below, below]) == "does not hold"
    for undecided in ([above, below], [above, across], [above, None], [None, None]):
        assert verdict(undecided) == "cannot tell at this scale"


def test_outcome_says_what_was_put_in() -> None:
    runs = [trajectory(lr, seed) for lr in (0.1, 0.2, 0.3) for seed in (0, 1)]
    found = outcome(runs)
    first = found["tables"][0]
    assert first.columns == ("calibration error", "sharpness", "gd", "gd, paper")
    assert first.rows[0][2].mean == pytest.approx(1.0)
    assert first.rows[0][3] == "0.83 ± 0.08"
    kept = [pair for pair in PAIRS if pair[2] != "batch"]  # what no run has measured is left out
    assert len(found["cells"]) == len(kept) * 2 * 6
    assert not any("batch sharpness" in str(row) for table in found["tables"] for row in table.rows)
    assert all({"mean", "std", "n"} <= set(cell) for cell in found["cells"])
    claims = {row[0]: row[-1] for row in found["claims"].rows}
    assert claims["train ECE goes along with sharpness (GN, training set) under gd: r > 0"] == "holds"
    curve = found["curves"][0]
    assert curve["steps"] == list(range(40, 101, 10))
    assert curve["r"]["train ECE, GN, training set"][-1] == pytest.approx(1.0)


def test_outcome_of_nothing_is_empty_not_an_error() -> None:
    found = outcome([])
    assert found["cells"] == []
    assert found["curves"] == []
    assert {row[-1] for row in found["claims"].rows} == {"cannot tell at this scale"}
