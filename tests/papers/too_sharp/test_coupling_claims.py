"""Every claim of the coupling study by runs made so that the verdict is known, both ways."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Column, Row, Trajectory
from surefoot.studies.claim import Verdict
from surefoot.studies.correlation import pearson
from surefoot.studies.outcome import Outcome
from surefoot.studies.study import read_study
from surefoot_papers.too_sharp.coupling.analysis import outcome
from surefoot_papers.too_sharp.coupling.between_runs import rank_between
from surefoot_papers.too_sharp.coupling.claims import between_peaks
from surefoot_papers.too_sharp.coupling.figure import FIGURES, by_end


def trajectory(
    lr: float,
    *,
    optimizer: str = "gd",
    ece_peak: int = 40,
    sharpness_peak: int = 40,
    ece: float = 0.2,
    sharpness: float = 10.0,
    interpolated: int = 80,
    seed: int = 0,
) -> Trajectory:
    """Two triangles over 100 steps, as high as said and with their peaks where said."""
    spec = RunSpec.from_dict(
        {
            "optimizer": {"name": optimizer, "lr": lr},
            "budget": 100,
            "seed": seed,
            "schedule": {"every": 5, "per_decade": 12},
        }
    )

    def triangle(step: int, peak: int) -> float:
        return step / peak if step <= peak else (101 - step) / (101 - peak)

    rows: list[Row] = []
    for step in [s for s in range(101) if spec.schedule(s)]:
        row: Row = {"step": step, "train/margin_min": float(step - interpolated) + 0.5}
        for split in ("train", "test"):
            row |= {f"{split}/{name}": ece * triangle(step, ece_peak) for name in ("ece", "kce")}
            row |= {f"{split}/ggn_sharpness": sharpness * triangle(step, sharpness_peak)}
            row |= {f"{split}/accuracy": 1.0, f"{split}/confidence": 0.75}
        rows.append(row)
    return Trajectory.of(spec, rows)


def with_column(run: Trajectory, key: str, values: Callable[[Column], Column]) -> Trajectory:
    """The run with a quantity that is a function of the step."""
    return replace(run, columns={**run.columns, key: values(run["step"])})


def verdicts(runs: list[Trajectory]) -> dict[str, Verdict]:
    return {claim.id: claim.verdict for claim in outcome(runs).claims}


REPRODUCED, NOT_SEEN, INCONCLUSIVE = Verdict.REPRODUCED, Verdict.NOT_SEEN, Verdict.INCONCLUSIVE
BEFORE = "before-interpolation/gd"
WHOLE = "correlates/train-ece/train/gd"
PEAKS = "peaks-together/gd"
BETWEEN = "between-runs"
RATES = (0.1, 0.2, 0.3, 0.4)


def test_before_interpolation_is_judged_by_its_own_window() -> None:
    assert verdicts([trajectory(lr) for lr in RATES])[BEFORE] == REPRODUCED
    assert verdicts([trajectory(0.1)])[BEFORE] == INCONCLUSIVE  # one learning rate
    runs = [trajectory(lr, sharpness_peak=20, interpolated=20) for lr in RATES]
    runs = [with_column(run, "train/ece", lambda step: 1.0 - step / 200) for run in runs]
    # ECE falls while sharpness rises, then both fall
    assert verdicts(runs)[BEFORE] == NOT_SEEN
    assert verdicts(runs)[WHOLE] == INCONCLUSIVE


def test_peaks_at_about_the_same_time() -> None:
    assert between_peaks(trajectory(0.1, ece_peak=20, sharpness_peak=30)) == 1.5
    assert between_peaks(trajectory(0.1, ece_peak=1, sharpness_peak=25)) == 25
    assert between_peaks(trajectory(0.1, ece_peak=50, sharpness_peak=100)) is None  # ends at its peak
    near = [trajectory(lr, ece_peak=20, sharpness_peak=30) for lr in RATES]
    assert verdicts(near)[PEAKS] == REPRODUCED
    assert verdicts([*near, trajectory(0.5, ece_peak=20, sharpness_peak=50)])[PEAKS] == NOT_SEEN
    assert verdicts([*near, trajectory(0.5, ece_peak=20, sharpness_peak=100)])[PEAKS] == REPRODUCED
    assert verdicts([trajectory(0.1, sharpness_peak=100)])[PEAKS] == INCONCLUSIVE


def test_a_peak_at_the_first_step_counts_as_one_step() -> None:
    run = with_column(trajectory(0.1, sharpness_peak=25), "train/ece", lambda step: np.exp(-step))
    assert between_peaks(run) == 25


def group(optimizer: str, sign: int) -> list[Trajectory]:
    """Four learning rates, the larger the flatter, and `sign` says whether also the better calibrated."""
    return [trajectory(lr, optimizer=optimizer, sharpness=1 / lr, ece=0.3 - sign * 0.1 * lr) for lr in RATES]


def test_runs_of_lower_sharpness_are_compared_within_an_optimizer() -> None:
    alike = [*group("gd", 1), *group("sgd", 1), *group("sam", 1)]
    assert verdicts(alike)[BETWEEN] == REPRODUCED
    assert verdicts([*group("gd", -1), *group("sgd", -1)])[BETWEEN] == NOT_SEEN
    assert verdicts([*group("gd", 1), *group("sgd", -1)])[BETWEEN] == INCONCLUSIVE
    assert verdicts(group("gd", 1))[BETWEEN] == INCONCLUSIVE  # one optimizer has no interval


def test_a_learning_rate_counts_once_and_two_are_too_few() -> None:
    runs = [*group("gd", 1), trajectory(0.1, seed=1, sharpness=10, ece=0.29)]
    assert rank_between(runs, "gd", sampling="equal") == pytest.approx(1.0)
    assert rank_between(runs[:2], "gd", sampling="equal") is None
    assert rank_between([trajectory(lr) for lr in RATES], "gd", sampling="log") is None  # nothing varies


def test_the_table_has_a_row_per_optimizer() -> None:
    *_, table = outcome([*group("gd", 1), *group("sgd", -1)]).tables
    assert table.name == "between-runs"
    assert [(row[0], row[1]) for row in table.rows] == [("gd", 4), ("sgd", 4)]
    assert [row[2] for row in table.rows] == pytest.approx([1.0, -1.0])


def test_hardly_goes_along_needs_both_intervals_inside() -> None:
    claim = "hardly-correlates/muon"
    assert verdicts([trajectory(lr, optimizer="muon") for lr in RATES])[claim] == NOT_SEEN
    runs = [
        with_column(run, "test/ece", lambda step: 0.1 + 0.05 * np.sin(40 * np.arange(len(step))))
        for run in (trajectory(lr, optimizer="muon") for lr in RATES)
    ]
    assert verdicts(runs)[claim] == REPRODUCED
    assert verdicts(runs[:1])[claim] == INCONCLUSIVE
    assert not [claim for claim in verdicts([trajectory(lr) for lr in RATES]) if "hardly" in claim]  # gd


def test_after_interpolation_test_ece_rises_while_sharpness_falls() -> None:
    claim = "after-interpolation/gd"
    assert verdicts([trajectory(lr, interpolated=45) for lr in RATES])[claim] == NOT_SEEN  # both fall
    runs = [with_column(trajectory(lr, interpolated=45), "test/ece", lambda step: step / 100) for lr in RATES]
    assert verdicts(runs)[claim] == REPRODUCED
    assert claim not in verdicts([trajectory(lr, interpolated=101) for lr in RATES])


def test_the_edge_comes_before_the_peak() -> None:
    claim = "edge-before-peak/gd"
    assert verdicts([trajectory(lr, sharpness=2.5 / lr) for lr in RATES])[claim] == REPRODUCED
    late = trajectory(0.1, sharpness=25.0, ece_peak=20, sharpness_peak=60)
    assert verdicts([trajectory(0.2, sharpness=12.5), late])[claim] == NOT_SEEN
    assert verdicts([trajectory(0.1, sharpness=25.0)])[claim] == INCONCLUSIVE


def test_kce_is_compared_in_the_cells_of_the_papers_table() -> None:
    claim = "kce-agrees/equally-spaced"
    runs = [trajectory(lr) for lr in RATES]

    def other_kce(optimizer: str) -> list[Trajectory]:
        own = [trajectory(lr, optimizer=optimizer) for lr in RATES]
        return [replace(run, columns={**run.columns, "train/kce": 1 - run["train/kce"]}) for run in own]

    assert verdicts([*runs, *other_kce("bulk_sgd")])[claim] == REPRODUCED
    assert verdicts(other_kce("gd"))[claim] == NOT_SEEN


def test_claims_carry_the_numbers_that_they_are_judged_by() -> None:
    claims = {claim.id: claim for claim in outcome([trajectory(lr, ece_peak=20) for lr in RATES]).claims}
    whole = claims[WHOLE]
    assert whole.measured.startswith("equally spaced steps: ")
    assert whole.estimate is not None
    assert f"{whole.estimate:.3g} " in whole.measured
    assert (whole.low, whole.high, whole.n) == (whole.estimate, whole.estimate, (4,))  # alike at all learning rates
    assert whole.statement == "train ECE goes along with sharpness (GN, training set) under gd: r > 0"
    peaks = claims[PEAKS]
    assert (peaks.estimate, peaks.n, peaks.unit) == (1.0, (4,), "runs")
    assert peaks.measured == "in 4 of 4 runs, 4 in all; 2-fold in the median"


def test_what_was_not_measured_is_left_out_and_not_0() -> None:
    runs = [trajectory(lr) for lr in RATES]
    blank = [with_column(runs[0], "train/ggn_sharpness", lambda step: np.full_like(step, math.nan)), *runs[1:]]
    claims = {claim.id: claim for claim in outcome(blank).claims}
    assert claims[WHOLE].n == claims[PEAKS].n == claims["edge-before-peak/gd"].n == (3,)
    assert claims["rise-and-fall"].measured == "3 of 3 runs, 4 in all"
    assert between_peaks(blank[0]) is None
    peaks = next(table for table in outcome(blank).tables if table.name == "peaks")
    first = dict(zip(peaks.columns, peaks.rows[0], strict=True))
    assert (str(first["peak GN sharpness"]), first["step of peak sharpness"]) == ("-", None)
    assert str(first["peak train ECE"]) == "0.2 (n=1)"


@pytest.mark.parametrize("study", ["coupling", "coupling-text"])
def test_every_family_has_a_rule_in_the_study_s_file(study: str) -> None:
    def families(result: Outcome) -> set[str]:
        return {claim.family for claim in result.claims}

    images = [trajectory(lr, optimizer=name) for lr in RATES for name in ("gd", "muon")]
    text = [trajectory(lr, optimizer="muon", interpolated=101) for lr in RATES]
    assert {rule.family for rule in read_study(study).rules} == families(
        outcome(images if study == "coupling" else text)
    )


def test_the_figures_are_the_same_bytes_every_time() -> None:
    pytest.importorskip("matplotlib")
    runs = [trajectory(lr, optimizer=name) for lr in RATES for name in ("gd", "sgd")]
    for figure in FIGURES:
        drawn = figure.draw(runs)
        assert drawn.startswith("<svg")
        assert drawn == figure.draw(runs)


def test_the_correlation_by_end_is_over_the_steps_up_to_there() -> None:
    run = trajectory(0.1, ece_peak=20, sharpness_peak=60)
    shares, correlations = by_end(run, ("train", "ece", "train"))
    assert shares[-1] == 1.0
    assert correlations[-1] == pearson(run.window("equal"), "train/ece", "train/ggn_sharpness")
    place = shares.index(0.5)
    assert correlations[place] == pearson(run.window("equal", "first 50 %"), "train/ece", "train/ggn_sharpness")
    blank = with_column(run, "train/ggn_sharpness", lambda step: np.full_like(step, math.nan))
    assert by_end(blank, ("train", "ece", "train")) == ([], [])
