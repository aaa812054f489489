import pytest

from surefoot.runs.spec import RunSpec
from surefoot.studies.correlation import Trajectory
from surefoot_papers.sam_calibration.theory.analysis import check, outcome
from surefoot_papers.sam_calibration.theory._claims import STATEMENTS


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
    return [(str(row[1]), str(row[2])) for row in outcome([run])["claims"].rows]


def test_what_holds_where_it_may() -> None:
    found = claims(trajectory([1, 1, 0]))
    assert found[0] == ("at 3 of 3 steps", "holds")
    assert found[1] == ("2 of 2 steps; assumption not met at 1", "holds")
    assert claims(trajectory([1, -1, 0]))[1] == ("1 of 2 steps; assumption not met at 1", "does not hold")
    assert claims(trajectory([0, 0, 0]))[1][1] == "cannot tell: the assumption is never met"
    assert claims(trajectory([1, 1], kappa=-2.0))[0] == ("at 0 of 2 steps", "does not hold")


def climbing(
    seed: int,
    *,
    rho: float = 0.05,
    kappas: tuple[float, float] = (-0.1, -0.3),
    line: float = 0.99,
    weights: tuple[float, float] = (1.1, 1.4),
    lowest: float = -0.5,
    batch_size: int = 50,
    verdict: float = 1.0,
) -> Trajectory:
    """Eight observed steps, the weight rising from the first to the second in the middle."""
    spec = {"optimizer": {"name": "sam", "lr": 0.1, "rho": rho}, "budget": 9, "seed": seed, "batch_size": batch_size}
    start, end = kappas
    rows = trajectory([verdict] * 8).rows
    for place, row in enumerate(rows):
        row |= {"train/sam_kappa_start": start, "train/sam_kappa_end": end, "train/sam_kappa_line": line}
        row |= {"train/sam_lambda": weights[place // 4] + 0.01 * seed * (place // 4), "train/sam_kappa_min": lowest}
    return Trajectory(RunSpec.from_dict({**spec, "observers": {"sam_theory": {"rho": rho}}}), rows)


def told(runs: list[Trajectory]) -> dict[str, tuple[str, str]]:
    rows = outcome(runs)["claims"].rows
    return {str(row[0]).removesuffix(", under sam rho=0.05"): (str(row[1]), str(row[2])) for row in rows}


def test_kappa_falls_on_a_line() -> None:
    found = told([climbing(seed) for seed in range(3)])
    assert found["kappa_min falls along the climb"] == ("at 24 of 24 steps", "holds")
    assert found["kappa_min goes along the climb on a straight line"] == (
        "R^2 0.990 in the median of 24 steps",
        "holds",
    )
    other = told([climbing(seed, kappas=(-0.3, -0.1), line=0.4) for seed in range(3)])
    assert other["kappa_min falls along the climb"] == ("at 0 of 24 steps", "does not hold")
    assert other["kappa_min goes along the climb on a straight line"][1] == "does not hold"
    assert "kappa_min falls along the climb" not in told([trajectory([1, 1])])  # of runs that did not keep it


def test_a_climb_may_spare_single_samples() -> None:
    claim = "the climb lowers the geometric mean of the probabilities without lowering each of them"
    run = climbing(0)
    assert claim not in told([run])  # of runs that did not keep it
    for row in run.rows:
        row["train/sam_lowered"] = 1.0
    assert told([run])[claim] == ("at 0 of 8 steps; it lowers 100.0% of the samples in the mean", "does not hold")
    run.rows[0]["train/sam_lowered"] = 0.6
    run.rows[1] |= {"train/sam_lowered": 0.2, "train/sam_rise": -0.1}  # lowers no mean, so that it says nothing
    assert told([run])[claim] == ("at 1 of 7 steps; it lowers 94.3% of the samples in the mean", "holds")


def test_the_weight_grows() -> None:
    found = told([climbing(seed) for seed in range(3)])
    assert found["lambda is above 1"] == ("at 24 of 24 steps", "holds")
    assert found["lambda is larger late than early"] == ("+0.310 [+0.285, +0.335] (n=3)", "holds")
    other = told([climbing(seed, weights=(1.4, 0.9)) for seed in range(3)])
    assert other["lambda is above 1"] == ("at 12 of 24 steps", "does not hold")
    assert other["lambda is larger late than early"][1] == "does not hold"


def test_a_large_rho_breaks_the_assumption() -> None:
    text = "the assumption is broken more often at rho 1 than at 0.05"
    small = [climbing(seed) for seed in range(3)]
    broken = told([*small, *(climbing(seed, rho=1.0, lowest=-2.0) for seed in range(3))])
    assert broken[text] == ("% of the steps: +100.00 [+100.00, +100.00] (n=3)", "holds")
    assert broken["kappa_min stays above -||g|| / rho on the path"] == ("at 24 of 24 steps", "holds")  # at 0.05
    kept = told([*small, *(climbing(seed, rho=1.0) for seed in range(3))])
    assert kept[text][1] == "does not hold"
    assert text not in told(small)


def test_batches_of_one_sample_have_their_own_lemma() -> None:
    runs = [climbing(0), climbing(0, batch_size=1, verdict=-1.0)]
    found = told(runs)
    lemma = "p~ <= exp(-rho ||g|| / 2) p, by kappa_min, wherever its assumption is met"
    assert found[f"Lemma 2: {lemma}"] == ("8 of 8 steps; assumption not met at 0", "holds")
    assert found[f"Lemma 1: {lemma}"] == ("0 of 8 steps; assumption not met at 0", "does not hold")
    assert not any(text.startswith("Lemma 1") for text in told(runs[:1]))
    path = outcome(runs)["tables"][1]
    assert [row[0] for row in path.rows] == ["sam rho=0.05", "sam rho=0.05, one sample"]


def test_tables() -> None:
    verdicts, path = outcome([trajectory([1, 0, -1])])["tables"]
    assert verdicts.rows[0][4:] == (1, 1, 1)
    row = dict(zip(path.columns, path.rows[0], strict=True))
    assert row["its largest"] == 0.5
    assert row["lambda / lambda_0"].n == 2
    assert row["rise of the loss / (rho ||g|| / 2)"].mean == pytest.approx(2)


def test_what_the_study_needs_is_checked() -> None:
    with pytest.raises(ValueError, match="needs the observer sam_theory"):
        check(RunSpec.from_dict({"optimizer": {"name": "sam", "lr": 0.1}, "budget": 9}))
