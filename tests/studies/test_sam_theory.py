import pytest

from surefoot.runs.spec import RunSpec
from surefoot.studies.correlation import Trajectory
from surefoot.studies.sam_theory import STATEMENTS, check, outcome


def trajectory(verdicts: list[float], kappa: float = -0.5) -> Trajectory:
    spec = RunSpec.from_dict(
        {"optimizer": {"name": "sam", "lr": 0.1, "rho": 0.05}, "budget": 9, "observers": {"sam_theory": {}}}
    )
    rows = []
    for step, verdict in enumerate(verdicts):
        row: dict[str, float | None] = {"step": float(step)} | {f"train/{key}": verdict for key in STATEMENTS}
        row |= {
            "train/sam_kappa_min": kappa,
            "train/sam_directional": -0.1,
            "train/sam_threshold": -1.0,
            "train/sam_lambda": 1.2,
            "train/sam_lambda_0": 1.1 if step else None,
            "train/sam_rise": 0.04,
            "train/sam_half_rise": 0.02,
        }
        rows.append(row)
    return Trajectory(spec, rows)


def claims(run: Trajectory) -> list[tuple[str, str]]:
    return [(str(row[1]), str(row[2])) for row in outcome([run], compare_with_paper=True)["claims"].rows]


def test_what_holds_where_it_may() -> None:
    found = claims(trajectory([1, 1, 0]))
    assert found[0] == ("at 3 of 3 steps", "holds")
    assert found[1] == ("2 of 2 steps; assumption not met at 1", "holds")
    assert claims(trajectory([1, -1, 0]))[1] == ("1 of 2 steps; assumption not met at 1", "does not hold")
    assert claims(trajectory([0, 0, 0]))[1][1] == "cannot tell: the assumption is never met"
    assert claims(trajectory([1, 1], kappa=-2.0))[0] == ("at 0 of 2 steps", "does not hold")


def test_tables() -> None:
    verdicts, path = outcome([trajectory([1, 0, -1])], compare_with_paper=True)["tables"]
    assert verdicts.rows[0][4:] == (1, 1, 1)
    row = dict(zip(path.columns, path.rows[0], strict=True))
    assert row["its largest"] == 0.5
    assert row["lambda / lambda_0"].n == 2
    assert row["rise of the loss / (rho ||g|| / 2)"].mean == pytest.approx(2)


def test_what_the_study_needs_is_checked() -> None:
    with pytest.raises(ValueError, match="needs the observer sam_theory"):
        check(RunSpec.from_dict({"optimizer": {"name": "sam", "lr": 0.1}, "budget": 9}))
