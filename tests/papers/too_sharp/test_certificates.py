import math
from dataclasses import replace

import numpy as np
import pytest

from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.claim import Claim, Verdict
from surefoot.studies.study import read_study
from surefoot.training.schedule import Schedule
from surefoot_papers.too_sharp.certificates import FIGURES, check, outcome
from surefoot_papers.too_sharp.certificates._carriers import in_phase, leader, phases, shares
from surefoot_papers.too_sharp.certificates._constants import spread

HOLDS, FAILS, UNDECIDED = Verdict.REPRODUCED, Verdict.NOT_SEEN, Verdict.INCONCLUSIVE


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
    return Trajectory.of(spec, rows)


def changed(run: Trajectory, where: int | slice, values: dict[str, float]) -> Trajectory:
    """The run with other values at some of its observations."""
    columns = dict(run.columns)
    for key, value in values.items():
        columns[key] = run[key].copy()
        columns[key][where] = value
    return replace(run, columns=columns)


def test_shares_add_up_and_go_to_what_moves() -> None:
    moment = [0.0, -1.0, -2.0, -4.0, -5.0]
    run = trajectory([3 * math.exp(q) for q in moment], moment, [2.0] * 5)
    assert shares(run) == pytest.approx({"Q": 1, "C_J^2": 0, "the rest": 0})
    c_j = [1.0, 2.0, 3.0, 2.5, 4.0]
    other = shares(trajectory([7 * c * c for c in c_j], [1.0] * 5, c_j))
    assert other == pytest.approx({"Q": 0, "C_J^2": 1, "the rest": 0})
    assert shares(trajectory([2.0] * 5, [1.0] * 5, [1.0] * 5)) is None
    assert shares(run.part(slice(3))) is None


def test_a_missing_constant_is_left_out_of_the_shares() -> None:
    moment = [0.0, -1.0, -2.0, -3.0, -4.0, -5.0]
    run = trajectory([math.exp(q) for q in moment], moment, [2.0] * 6)
    missing = changed(run, 2, {"train/c_j": math.nan})
    assert shares(missing) == pytest.approx({"Q": 1, "C_J^2": 0, "the rest": 0})
    assert shares(changed(missing, 3, {"train/log_margin_moment": math.nan})) is None  # four observations


def test_phases_in_order() -> None:
    run = trajectory([1, 10, 19, 21, 15, 5, 2], [3, 2, 2, 1, 0.5, -1, -2], [1.0] * 7)
    steps = {name: part.steps.tolist() for name, part in phases(run).items()}
    assert steps == {"before": [0, 1], "at the edge": [2, 3, 4], "interpolating": [5, 6]}


def claims(*runs: Trajectory) -> dict[str, Claim]:
    return {claim.id: claim for claim in outcome(runs).claims}


def verdicts(*runs: Trajectory) -> dict[str, Verdict]:
    return {id: claim.verdict for id, claim in claims(*runs).items()}


CURVED = "no-failure/theorem-4.1/ii/clean"
INSIDE = "no-failure/theorem-4.2/i"
ROBUST = "no-failure/theorem-4.1/i/robust"
FREE = "no-failure/remark-b.6"


def judged(run: Trajectory, id: str) -> tuple[str, Verdict]:
    claim = claims(run)[id]
    return claim.measured, claim.verdict


def test_every_claim_has_a_rule_in_the_studys_file() -> None:
    families = {claim.family for claim in claims().values()}
    assert families == {rule.family for rule in read_study("certificates", scale="digits").rules}


def test_bounds_are_judged_one_inequality_at_a_time() -> None:
    run = changed(trajectory([1.0] * 6, [1.0] * 6, [2.0] * 6), slice(4, None), {"train/interpolating": 1.0})
    assert judged(run, CURVED) == ("0 failures in 12 evaluations", HOLDS)
    assert judged(run, INSIDE) == ("0 failures in 2 evaluations; its assumption is not met in 10 others", HOLDS)
    assert judged(run, ROBUST) == ("", UNDECIDED)  # no robust margin was measured
    curved = claims(run)[CURVED]
    assert curved.statement == "no failure: Theorem 4.1 (ii): sharpness <= 2 C_J^2 (K - 1) Q"
    assert (curved.estimate, curved.n, curved.unit) == (0.0, (12,), "evaluations")
    assert claims(run)[ROBUST].estimate is None


def test_a_failure_is_laid_at_the_inequality_whose_sides_show_it() -> None:
    run = trajectory([1.0] * 6, [1.0] * 6, [2.0] * 6)
    run = changed(run, 2, {"test/failed": 1.0, "test/bound_sharpness_free": 0.9})
    assert judged(run, FREE) == ("1 failures in 12 evaluations", FAILS)
    assert claims(run)[FREE].estimate == pytest.approx(1 / 12)
    assert judged(run, CURVED)[1] is HOLDS
    text, verdict = judged(run, "no-failure/lemma/b.1-to-b.4")
    assert verdict is UNDECIDED
    assert "the rows do not say what" in text
    assert judged(run, INSIDE)[1] is UNDECIDED  # never interpolating


def test_the_bound_of_sharpness_by_robust_margins_is_judged_by_its_sides() -> None:
    id = "no-failure/theorem-4.1/ii/robust"
    run = trajectory([1.0] * 6, [1.0] * 6, [2.0] * 6)  # bounded by 10
    assert judged(run, id) == ("", UNDECIDED)
    run = changed(run, slice(None), {"train/log_robust_moment": 1.5})
    assert judged(run, id) == ("0 failures in 6 evaluations", HOLDS)
    run = changed(run, 3, {"train/log_robust_moment": 1.0 - math.log(10) - 0.1})  # no proof allows it: less than 1
    assert judged(run, id) == ("1 failures in 6 evaluations", FAILS)


def test_predicted_margins_grow_while_test_ece_worsens() -> None:
    id = "predicted-margins-grow"

    def run(moments: list[float], eces: list[float]) -> Trajectory:
        c_j = [1.0, 2.0, 4.0, 8.0]
        made = trajectory([1.0] * 4, [1.0] * 4, c_j)
        for place, (nll, ece, moment, norm) in enumerate(zip([9, 1, 2, 3], eces, moments, c_j, strict=True)):
            free = 18 * norm**2 * math.exp(moment)
            made = changed(made, place, {"test/nll": nll, "test/ece": ece, "test/bound_sharpness_free": free})
        return made

    confident, less_confident = run([0, -1, -2, -4], [0, 0.1, 0.2, 0.3]), run([0, -3, -2, -2], [0, 0.1, 0.2, 0.3])
    calibrated = run([0, -3, -2, -2], [0, 0.1, 0.2, 0.1])  # its test ECE does not worsen, so that it says nothing
    assert judged(confident, id)[0] == "in 1 of 1 runs; log mean exp(-predicted margin) changes by -3 (n=1)"
    assert verdicts(confident, confident, calibrated)[id] is HOLDS
    assert verdicts(confident, less_confident)[id] is FAILS
    assert verdicts(confident, calibrated)[id] is UNDECIDED


def test_who_carries_the_tail() -> None:
    id = "worst-tenth-of-margins/train"
    few, many = (trajectory([1.0] * 5, [1.0] * 5, [2.0] * 5) for _ in range(2))
    few = changed(few, -1, {"train/tail_share_10": 0.9})
    assert verdicts(few, few)[id] is HOLDS
    assert verdicts(few, many)[id] is FAILS  # 0.3 in the other
    assert verdicts(few)[id] is UNDECIDED
    assert (claims(few, many)[id].estimate, claims(few, many)[id].n) == (0.5, (2,))
    unmeasured = changed(many, -1, {"train/tail_share_10": math.nan})
    assert claims(few, few, unmeasured)[id].n == (2,)


def test_the_least_robust_tenth() -> None:
    id = "least-robust-tenth/test"

    def run(gaps: list[float]) -> Trajectory:
        made = trajectory([1.0] * 5, [1.0] * 5, [2.0] * 5)
        return changed(made, -1, {f"test/ece_decile_{k:02d}": gap for k, gap in enumerate(gaps, start=1)})

    first, other = run([0.9, *[0.1] * 9]), run([0.2, 0.1, 0.3, *[0.1] * 7])
    assert verdicts(first, first)[id] is HOLDS
    assert verdicts(first, other)[id] is FAILS
    assert verdicts(*[trajectory([1.0] * 5, [1.0] * 5, [2.0] * 5)] * 2)[id] is UNDECIDED


def test_the_label_free_bound_where_the_model_is_confidently_wrong() -> None:
    id = "label-free-bound-tighter"

    def run(factor: float, *, confidence: float = 0.9) -> Trajectory:
        made = trajectory([1.0] * 5, [1.0] * 5, [2.0] * 5)
        values = {"test/confidence": confidence, "test/accuracy": 0.5, "test/bound_sharpness": 8.0 * factor}
        return changed(made, slice(None), values)

    assert verdicts(run(50.0), run(20.0))[id] is HOLDS
    assert verdicts(run(50.0), run(5.0))[id] is FAILS
    assert verdicts(run(50.0, confidence=0.55), run(50.0, confidence=0.55))[id] is UNDECIDED


def test_claims() -> None:
    moment = [3.0, 2.0, 1.0, 0.5, 0.2, -1, -2, -3, -4, -5]
    steady = trajectory([0.1 * math.exp(q) for q in moment], moment, [2.0] * 10)
    runs = (steady, steady, trajectory([1.0] * 10, moment, [3.0] * 10, widths=[5, 5]))
    judgement = verdicts(*runs)
    assert judgement[CURVED] is HOLDS
    assert judgement["c-j-bounded"] is HOLDS
    assert judgement["c-j-independent/depth"] is HOLDS
    assert claims(*runs)["c-j-independent/depth"].statement == "C_J does not depend on depth (beyond a factor 2)"
    assert claims(*runs)["c-j-bounded"].estimate == 1.0
    before = "leading-term/margin-tail/before/all"
    statement = "the margin tail Q is the leading term of sharpness: before, all observed steps"
    assert claims(*runs)[before].statement == statement
    assert judgement[before] is HOLDS
    assert verdicts(steady)[before] is UNDECIDED  # one run
    assert judgement[before.replace("before", "at-the-edge")] is UNDECIDED
    growing = trajectory([1.0] * 10, moment, [2.0 + k for k in range(10)], failed=1)
    judgement = verdicts(growing, trajectory([1.0] * 10, moment, [30.0] * 10, widths=[5, 5]))
    assert judgement["c-j-bounded"] is FAILS
    assert judgement["c-j-independent/depth"] is FAILS


def test_depth_and_width_are_compared_one_at_a_time() -> None:
    shapes = {(5,): 1.0, (5, 5): 3.0, (50,): 1.5, (50, 50): 3.0, (5, 50): 100.0}
    runs = [trajectory([1.0] * 5, [1.0] * 5, [c] * 5, widths=list(widths)) for widths, c in shapes.items()]
    assert spread(runs, "depth") == 3  # (5,) and (5, 5)
    assert spread(runs, "width") == 1.5  # (5,) and (50,)
    assert spread(runs[:1], "depth") is None


def test_spacings_are_distinguished() -> None:
    """Early steps in which C_J moves sharpness, then equally spaced ones in which Q does."""
    moment = [0.0] * 10 + [float(-k) for k in range(1, 8)]
    c_j = [1.0 + k for k in range(10)] + [10.0] * 7
    run = trajectory([c * c * math.exp(q) for c, q in zip(c_j, moment, strict=True)], moment, c_j)
    assert leader(run.part(slice(10))) == "C_J^2"
    assert leader(run.part(slice(10, None))) == "Q"
    sparse = replace(run, spec=replace(run.spec, schedule=Schedule(every=5)))
    parts = [in_phase(sparse, phase, "equal").steps for phase in phases(sparse)]
    assert np.concatenate(parts).tolist() == [0, 5, 10, 15]


def test_tables() -> None:
    moment = [3.0, 2.0, 1.0, 0.5, 0.2, -1, -2, -3, -4, -5]
    runs = [
        trajectory([0.1 * math.exp(q) for q in moment], moment, [2.0] * 10),
        trajectory([1.0] * 10, moment, [3.0] * 10, widths=[50, 50]),
    ]
    slacks, constants, architectures, carriers = outcome(runs).tables
    assert len(slacks.rows) == 2
    assert slacks.rows[0][3] == "4 (4 to 4)"
    assert slacks.rows[0][-1] == "0 in 10 steps"
    assert constants.rows[0][2:5] == (2.0, 2.0, 2.0)
    assert [row[1] for row in architectures.rows] == [1, 2]
    assert {row[2] for row in carriers.rows} == {"before", "interpolating"}
    assert {row[3] for row in carriers.rows} == {"all"}  # too few equally spaced steps


def test_what_was_not_measured_is_no_number() -> None:
    run = trajectory([1.0] * 5, [1.0] * 5, [2.0] * 5)
    bare = changed(run, slice(None), {"train/c_j": math.nan, "train/failed": math.nan})
    slacks, constants, *_ = outcome([bare]).tables
    assert constants.rows[0][2:5] == (None, None, None)
    assert slacks.rows[0][-1] is None
    assert slacks.rows[1][-1] == "0 in 5 steps"
    assert claims(bare)["c-j-bounded"].estimate is None
    assert outcome([]).tables[0].rows == ()


def test_the_figure_shows_the_longest_runs() -> None:
    run = changed(trajectory([1.0] * 5, [1.0] * 5, [2.0] * 5), slice(3, None), {"train/interpolating": 1.0})
    (figure,) = FIGURES
    assert figure.draw([run]).startswith("<svg")
    assert figure.draw([run]) == figure.draw([run, replace(run, spec=replace(run.spec, budget=1))])


def test_what_the_study_needs_is_checked() -> None:
    with pytest.raises(ValueError, match="needs the observer certificates"):
        check(RunSpec.from_dict({"optimizer": {"name": "gd", "lr": 0.1}, "budget": 9}))
