import math
from dataclasses import replace

import pytest

from surefoot.runs.spec import RunSpec
from surefoot.studies.correlation import Trajectory
from surefoot.training.schedule import Schedule
from surefoot_papers.too_sharp.certificates.analysis import check, outcome
from surefoot_papers.too_sharp.certificates._carriers import evenly, leader, phases, shares
from surefoot_papers.too_sharp.certificates._constants import spread


def trajectory(
    sharpness: list[float], moment: list[float], c_j: list[float], *, widths: list[int] | None = None, failed: int = 0
) -> Trajectory:
    spec = RunSpec.from_dict(
        {
            "optimizer": {"name": "gd", "lr": 0.1},
            "budget": 9,
            "model": {"name": "mlp", "widths": widths or [5]},
            "observers": {"certificates": {}},
        }
    )
    rows = []
    for step, (s, q, c) in enumerate(zip(sharpness, moment, c_j, strict=True)):
        row = {"step": float(step), "train/log_margin_moment": q, "train/margin_min": -q, "train/ece": s / 100}
        for split in ("train", "test"):
            row |= {
                f"{split}/certified_ece": 0.1,
                f"{split}/certified_sharpness": s,
                f"{split}/bound_ece": 0.4,
                f"{split}/bound_ece_ours": 0.2,
                f"{split}/bound_sharpness": 10 * s,
                f"{split}/bound_sharpness_free": 8 * s,
                f"{split}/bound_sharpness_ours": 2 * s,
                f"{split}/c_j": c,
                f"{split}/tail_share_10": 0.3,
                f"{split}/failed": float(failed),
            }
        rows.append(row)
    return Trajectory(spec, rows)


def test_shares_add_up_and_go_to_what_moves() -> None:
    moment = [0.0, -1.0, -2.0, -4.0, -5.0]
    run = trajectory([3 * math.exp(q) for q in moment], moment, [2.0] * 5)
    found = shares(run.rows)
    assert found == pytest.approx({"Q": 1, "C_J^2": 0, "the rest": 0})
    c_j = [1.0, 2.0, 3.0, 2.5, 4.0]
    other = shares(trajectory([7 * c * c for c in c_j], [1.0] * 5, c_j).rows)
    assert other == pytest.approx({"Q": 0, "C_J^2": 1, "the rest": 0})
    assert shares(trajectory([2.0] * 5, [1.0] * 5, [1.0] * 5).rows) is None
    assert shares(run.rows[:3]) is None


def test_phases_in_order() -> None:
    run = trajectory([1, 10, 19, 21, 15, 5, 2], [3, 2, 2, 1, 0.5, -1, -2], [1.0] * 7)
    found = {name: [row["step"] for row in rows] for name, rows in phases(run).items()}
    assert found == {"before": [0, 1], "at the edge": [2, 3, 4], "interpolating": [5, 6]}


def verdicts(*runs: Trajectory) -> dict[str, str]:
    return {str(row[0]): str(row[-1]) for row in outcome(runs)["claims"].rows}


CURVED = "no failure: Theorem 4.1 (ii): sharpness <= 2 C_J^2 (K - 1) Q"
INSIDE = "no failure: Theorem 4.2 (i): Q / K <= ECE <= (K - 1) exp(-gamma)"
ROBUST = "no failure: Theorem 4.1 (i) with robust margins: ECE <= (K - 1) Q0"
FREE = "no failure: Remark B.6: sharpness <= 2 C_J^2 (K - 1) mean exp(-predicted margin)"


def told_of(run: Trajectory) -> dict[str, tuple[str, str]]:
    rows = outcome([run])["claims"].rows
    return {str(row[0]): (str(row[1]), str(row[2])) for row in rows}


def test_bounds_are_judged_a_family_at_a_time() -> None:
    run = trajectory([1.0] * 6, [1.0] * 6, [2.0] * 6)
    for row in run.rows[4:]:
        row["train/interpolating"] = 1.0
    told = told_of(run)
    assert told[CURVED] == ("0 failures in 12 evaluations", "holds")
    assert told[INSIDE] == ("0 failures in 2 evaluations; its assumption is not met in 10 others", "holds")
    assert told[ROBUST] == ("-", "cannot tell at this scale")  # nothing looked at robust margins


def test_a_failure_is_laid_at_the_family_whose_sides_show_it() -> None:
    run = trajectory([1.0] * 6, [1.0] * 6, [2.0] * 6)
    run.rows[2]["test/failed"] = 1.0
    run.rows[2]["test/bound_sharpness_free"] = 0.9
    told = told_of(run)
    assert told[FREE] == ("1 failures in 12 evaluations", "does not hold")
    assert told[CURVED][1] == "holds"
    lemmas = told["no failure: Lemmas B.1 to B.4, sample by sample"]
    assert lemmas[1] == "cannot tell at this scale"
    assert "the rows do not say what" in lemmas[0]
    assert told[INSIDE][1] == "cannot tell at this scale"  # never interpolating


def test_the_bound_of_sharpness_by_robust_margins_is_told_from_the_rows() -> None:
    claim = "no failure: Theorem 4.1 (ii) with robust margins: sharpness <= 2 C_J^2 (K - 1) Q0"
    run = trajectory([1.0] * 6, [1.0] * 6, [2.0] * 6)  # bounded by 10
    assert told_of(run)[claim] == ("-", "cannot tell at this scale")
    for row in run.rows:
        row["train/log_robust_moment"] = 1.5
    assert told_of(run)[claim] == ("0 failures in 6 evaluations", "holds")
    run.rows[3]["train/log_robust_moment"] = 1.0 - math.log(10) - 0.1  # no proof allows it: less than 1
    assert told_of(run)[claim] == ("1 failures in 6 evaluations", "does not hold")


def test_predicted_margins_grow_while_test_ece_worsens() -> None:
    claim = "predicted margins of the test set grow where its ECE worsens by more than 0.01 after its lowest NLL"

    def run(moments: list[float], eces: list[float]) -> Trajectory:
        c_j = [1.0, 2.0, 4.0, 8.0]
        found = trajectory([1.0] * 4, [1.0] * 4, c_j)
        for row, nll, ece, moment, norm in zip(found.rows, [9, 1, 2, 3], eces, moments, c_j, strict=True):
            row |= {"test/nll": nll, "test/ece": ece, "test/bound_sharpness_free": 18 * norm**2 * math.exp(moment)}
        return found

    surer, less_sure = run([0, -1, -2, -4], [0, 0.1, 0.2, 0.3]), run([0, -3, -2, -2], [0, 0.1, 0.2, 0.3])
    calibrated = run([0, -3, -2, -2], [0, 0.1, 0.2, 0.1])  # its test ECE does not worsen, so that it says nothing
    assert told_of(surer)[claim][0] == "in 1 of 1 runs; log mean exp(-predicted margin) changes by -3 (n=1)"
    assert verdicts(surer, surer, calibrated)[claim] == "holds"
    assert verdicts(surer, less_sure)[claim] == "does not hold"
    assert verdicts(surer, calibrated)[claim] == "cannot tell at this scale"


def test_who_carries_the_tail() -> None:
    claim = "the worst tenth of the margins carries most of Q after the last step: train set"
    few, many = (trajectory([1.0] * 5, [1.0] * 5, [2.0] * 5) for _ in range(2))
    few.rows[-1]["train/tail_share_10"] = 0.9
    assert verdicts(few, few)[claim] == "holds"
    assert verdicts(few, many)[claim] == "does not hold"  # 0.3 in the other
    assert verdicts(few)[claim] == "cannot tell at this scale"


def test_the_least_robust_tenth() -> None:
    claim = "the least robust tenth of the samples is the most miscalibrated after the last step: test set"

    def run(gaps: list[float]) -> Trajectory:
        found = trajectory([1.0] * 5, [1.0] * 5, [2.0] * 5)
        found.rows[-1].update({f"test/ece_decile_{k:02d}": gap for k, gap in enumerate(gaps, start=1)})
        return found

    first, other = run([0.9, *[0.1] * 9]), run([0.2, 0.1, 0.3, *[0.1] * 7])
    assert verdicts(first, first)[claim] == "holds"
    assert verdicts(first, other)[claim] == "does not hold"
    assert verdicts(*[trajectory([1.0] * 5, [1.0] * 5, [2.0] * 5)] * 2)[claim] == "cannot tell at this scale"


def test_the_label_free_bound_where_the_model_is_confidently_wrong() -> None:
    claim = "the label-free bound B.6 is at least 10 times tighter than 4.1's where the model is confidently wrong"

    def run(factor: float, *, confidence: float = 0.9) -> Trajectory:
        found = trajectory([1.0] * 5, [1.0] * 5, [2.0] * 5)
        for row in found.rows:
            row |= {"test/confidence": confidence, "test/accuracy": 0.5, "test/bound_sharpness": 8.0 * factor}
        return found

    assert verdicts(run(50.0), run(20.0))[claim] == "holds"
    assert verdicts(run(50.0), run(5.0))[claim] == "does not hold"
    assert verdicts(run(50.0, confidence=0.55), run(50.0, confidence=0.55))[claim] == "cannot tell at this scale"


def test_claims() -> None:
    moment = [3.0, 2.0, 1.0, 0.5, 0.2, -1, -2, -3, -4, -5]
    steady = trajectory([0.1 * math.exp(q) for q in moment], moment, [2.0] * 10)
    told = verdicts(steady, steady, trajectory([1.0] * 10, moment, [3.0] * 10, widths=[5, 5]))
    assert told[CURVED] == "holds"
    assert told["C_J stays bounded along training"] == "holds"
    assert told["C_J does not depend on depth (beyond a factor 2)"] == "holds"
    before = "the margin tail Q is the leading term of sharpness: before, all observed steps"
    assert told[before] == "holds"
    assert verdicts(steady)[before] == "cannot tell at this scale"  # one run
    assert told[before.replace("before", "at the edge")] == "cannot tell at this scale"
    growing = trajectory([1.0] * 10, moment, [2.0 + k for k in range(10)], failed=1)
    told = verdicts(growing, trajectory([1.0] * 10, moment, [30.0] * 10, widths=[5, 5]))
    assert told["C_J stays bounded along training"] == "does not hold"
    assert told["C_J does not depend on depth (beyond a factor 2)"] == "does not hold"


def test_depth_and_width_are_compared_one_at_a_time() -> None:
    shapes = {(5,): 1.0, (5, 5): 3.0, (50,): 1.5, (50, 50): 3.0, (5, 50): 100.0}
    runs = [trajectory([1.0] * 5, [1.0] * 5, [c] * 5, widths=list(widths)) for widths, c in shapes.items()]
    assert spread(runs, "depth") == 3  # (5,) and (5, 5)
    assert spread(runs, "width") == 1.5  # (5,) and (50,)
    assert spread(runs[:1], "depth") is None


def test_spacings_are_told_apart() -> None:
    """Early steps in which C_J moves sharpness, then equally spaced ones in which Q does."""
    moment = [0.0] * 10 + [float(-k) for k in range(1, 8)]
    c_j = [1.0 + k for k in range(10)] + [10.0] * 7
    run = trajectory([c * c * math.exp(q) for c, q in zip(c_j, moment, strict=True)], moment, c_j)
    late = [row for row in run.rows if (row["step"] or 0) >= 10]
    assert leader(run.rows[:10]) == "C_J^2"
    assert leader(late) == "Q"
    sparse = Trajectory(replace(run.spec, schedule=Schedule(every=5)), run.rows)
    assert [row["step"] for row in evenly(sparse, run.rows)] == [0, 5, 10, 15]


def test_tables() -> None:
    moment = [3.0, 2.0, 1.0, 0.5, 0.2, -1, -2, -3, -4, -5]
    runs = [
        trajectory([0.1 * math.exp(q) for q in moment], moment, [2.0] * 10),
        trajectory([1.0] * 10, moment, [3.0] * 10, widths=[50, 50]),
    ]
    slacks, constants, architectures, carriers = outcome(runs)["tables"]
    assert len(slacks.rows) == 2
    assert slacks.rows[0][3] == "4 (4 to 4)"
    assert slacks.rows[0][-1] == "0 in 10 steps"
    assert constants.rows[0][2:5] == (2.0, 2.0, 2.0)
    assert [row[1] for row in architectures.rows] == [1, 2]
    assert {row[2] for row in carriers.rows} == {"before", "interpolating"}
    assert {row[3] for row in carriers.rows} == {"all"}  # too few equally spaced steps


def test_what_the_study_needs_is_checked() -> None:
    with pytest.raises(ValueError, match="needs the observer certificates"):
        check(RunSpec.from_dict({"optimizer": {"name": "gd", "lr": 0.1}, "budget": 9}))
