import pytest

from surefoot.runs.spec import RunSpec
from surefoot.studies.correlation import Trajectory
from surefoot_papers.too_sharp.edge_of_stability.analysis import check, outcome

OBSERVERS = {"hessian": {}, "batch_sharpness": {"batch_size": 10}}


def trajectory(name: str, hessian: list[float], batch: list[float]) -> Trajectory:
    batch_size = "full" if name == "gd" else 10
    spec = RunSpec.from_dict(
        {"optimizer": {"name": name, "lr": 0.1}, "batch_size": batch_size, "budget": 9, "observers": OBSERVERS}
    )
    rows = [
        {
            "step": float(step),
            "train/hessian_sharpness": h,
            "train/ggn_sharpness": h,
            "train/batch_sharpness": b,
            "train/hessian_certified": 1.0,
        }
        for step, (h, b) in enumerate(zip(hessian, batch, strict=True))
    ]
    return Trajectory(spec, rows)


def verdicts(*runs: Trajectory) -> list[str]:
    return [str(row[-1]) for row in outcome(runs)["claims"].rows]


def test_rising_to_the_edge_and_hovering_holds() -> None:
    assert verdicts(trajectory("gd", [2, 10, 18, 21, 22, 20], [1] * 6)) == ["holds"]
    assert verdicts(trajectory("sgd", [2, 5, 8, 9, 9, 9], [2, 8, 17, 21, 18, 19])) == ["holds", "holds"]


def test_what_does_not_hold_is_said() -> None:
    assert verdicts(trajectory("gd", [2, 10, 18, 60, 80, 90], [1] * 6)) == ["does not hold"]  # runs away
    assert verdicts(trajectory("gd", [2, 18, 4, 3, 2, 2], [1] * 6)) == ["does not hold"]  # falls back
    assert verdicts(trajectory("sgd", [30, 30, 30], [18, 19, 20])) == ["holds", "does not hold"]
    # from 0.75 of the edge on rows count, and their mean must still be at 0.9 of it, as under gd
    assert verdicts(trajectory("sgd", [2, 5, 5, 5, 5], [2, 15, 16, 17, 16])) == ["does not hold", "holds"]
    assert verdicts(trajectory("gd", [25, 3, 4, 5, 6, 7], [1] * 6)) == ["cannot tell: the edge was not reached"]
    assert "not reached" in verdicts(trajectory("gd", [1, 2, 3], [1] * 3))[0]


def test_the_table_counts_from_the_edge_on() -> None:
    (table,) = outcome([trajectory("gd", [2, 10, 18, 22], [1] * 4)])["tables"]
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert row["near the edge at step"] == 2
    assert row["2/lr"] == pytest.approx(20)
    assert row["largest eigenvalue of the Hessian"].mean == pytest.approx(1.0)
    assert row["largest eigenvalue of the Hessian"].n == 2


def test_what_the_study_needs_is_checked() -> None:
    without = RunSpec.from_dict({"optimizer": {"name": "gd", "lr": 0.1}, "budget": 9})
    with pytest.raises(ValueError, match="needs the observer hessian"):
        check(without)
    other = RunSpec.from_dict(
        {"optimizer": {"name": "sgd", "lr": 0.1}, "batch_size": 7, "budget": 9, "observers": OBSERVERS}
    )
    with pytest.raises(ValueError, match="must be that of sgd"):
        check(other)
    adam = RunSpec.from_dict(
        {"optimizer": {"name": "adamw", "lr": 0.1}, "batch_size": 10, "budget": 9, "observers": OBSERVERS}
    )
    with pytest.raises(ValueError, match="about GD and SGD"):
        check(adam)
