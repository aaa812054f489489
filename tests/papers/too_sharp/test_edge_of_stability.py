import math
from dataclasses import replace

import pytest

from surefoot.runs.spec import Part, RunSpec
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.claim import Verdict
from surefoot.studies.study import read_study
from surefoot_papers.too_sharp.edge_of_stability.analysis import check, outcome
from surefoot_papers.too_sharp.edge_of_stability.claims import at_the_edge
from surefoot_papers.too_sharp.edge_of_stability.figure import FIGURES

REPRODUCED, NOT_SEEN, INCONCLUSIVE = Verdict.REPRODUCED, Verdict.NOT_SEEN, Verdict.INCONCLUSIVE

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
    return Trajectory.of(spec, rows)


def verdicts(*runs: Trajectory) -> list[Verdict]:
    return [claim.verdict for claim in outcome(runs).claims]


def test_rising_to_the_edge_and_hovering_holds() -> None:
    assert verdicts(trajectory("gd", [2, 10, 18, 21, 22, 20], [1] * 6)) == [REPRODUCED]
    assert verdicts(trajectory("sgd", [2, 5, 8, 9, 9, 9], [2, 8, 17, 21, 18, 19])) == [REPRODUCED, REPRODUCED]


def test_what_does_not_hold_is_said() -> None:
    assert verdicts(trajectory("gd", [2, 10, 18, 60, 80, 90], [1] * 6)) == [NOT_SEEN]  # runs away
    assert verdicts(trajectory("gd", [2, 18, 4, 3, 2, 2], [1] * 6)) == [NOT_SEEN]  # falls back
    assert verdicts(trajectory("sgd", [30, 30, 30], [18, 19, 20])) == [REPRODUCED, NOT_SEEN]
    # from 0.75 of the edge on rows count, and their mean must still be at 0.9 of it, as under gd
    assert verdicts(trajectory("sgd", [2, 5, 5, 5, 5], [2, 15, 16, 17, 16])) == [NOT_SEEN, REPRODUCED]
    assert verdicts(trajectory("gd", [25, 3, 4, 5, 6, 7], [1] * 6)) == [INCONCLUSIVE]
    (claim,) = outcome([trajectory("gd", [1, 2, 3], [1] * 3)]).claims
    assert (claim.verdict, claim.measured, claim.estimate) == (INCONCLUSIVE, "the edge was not reached", None)


def test_the_table_counts_from_the_edge_on() -> None:
    (table,) = outcome([trajectory("gd", [2, 10, 18, 22], [1] * 4)]).tables
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


def test_claims_carry_the_numbers_that_they_are_judged_by() -> None:
    run = trajectory("sgd", [2, 5, 8, 9, 9, 9], [2, 8, 17, 21, 18, 19])
    hovers, below = outcome([run]).claims
    assert hovers.id == "hovers/sgd/cross-entropy/lr-0.1/seed-0"
    assert (hovers.estimate, hovers.n, hovers.unit) == (pytest.approx(75 / 80), (4,), "steps")
    assert hovers.statement == "sgd at lr 0.1: batch sharpness rises to 2/lr and hovers"
    assert below.id == "stays-below/sgd/cross-entropy/lr-0.1/seed-0"
    assert below.estimate == pytest.approx(35 / 80)
    assert outcome([run]).claims_table.columns == ("claim", "in units of 2/lr", "verdict")


def test_runs_that_differ_in_their_data_alone_have_claims_of_their_own() -> None:
    run = trajectory("gd", [2, 10, 18, 21, 22, 20], [1] * 6)
    other = replace(run, spec=replace(run.spec, data=Part("cifar10-5k")))
    ids = [claim.id for claim in outcome([run, other]).claims]
    assert ids == [f"hovers/gd/cross-entropy/lr-0.1/seed-0/{each.spec.id}" for each in (run, other)]


def test_what_was_not_measured_is_left_out_and_not_0() -> None:
    gap = math.nan
    run = trajectory("gd", [8, gap, 10, 18, gap, 22], [1] * 6)  # a 0 in place of the first gap would be the lowest
    assert at_the_edge(run).steps.tolist() == [3, 4, 5]
    (claim,) = outcome([run]).claims
    assert (claim.estimate, claim.n) == (pytest.approx(1.0), (2,))
    assert len(at_the_edge(trajectory("gd", [gap] * 4, [1] * 4))) == 0


def test_every_family_has_a_rule_in_the_study_s_file() -> None:
    claims = outcome([trajectory("gd", [2, 18], [1, 1]), trajectory("sgd", [2, 9], [2, 18])]).claims
    assert {claim.family for claim in claims} == {rule.family for rule in read_study("edge-of-stability").rules}


def test_the_figure_has_a_panel_per_run_at_most_six() -> None:
    pytest.importorskip("matplotlib")
    (figure,) = FIGURES
    runs = [trajectory("gd", [2, 10, 18, 22], [1] * 4)] * 9
    drawn = figure.draw(runs)
    assert drawn == figure.draw(runs)
    assert drawn.count(">gd, lr 0.1, seed 0</text>") == 6
