"""Every claim of the coupling study by runs made so that the verdict is known, both ways."""

import math

import pytest

from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Row
from surefoot.studies.correlation import Trajectory
from surefoot_papers.too_sharp.coupling.analysis import outcome
from surefoot_papers.too_sharp.coupling.between_runs import rank_between
from surefoot_papers.too_sharp.coupling.claims import between_peaks


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
    return Trajectory(spec, rows)


def verdicts(runs: list[Trajectory]) -> dict[str, str]:
    return {str(row[0]): str(row[-1]) for row in outcome(runs)["claims"].rows}


BEFORE = "before interpolation train ECE goes along with sharpness (GN, training set) under gd: r > 0"
WHOLE = "train ECE goes along with sharpness (GN, training set) under gd: r > 0"
PEAKS = "training ECE and sharpness peak at about the same time in every run under gd"
BETWEEN = "of one optimizer's runs those of lower mean sharpness have the lower mean training ECE: rank r > 0"
RATES = (0.1, 0.2, 0.3, 0.4)


def test_before_interpolation_is_judged_by_its_own_window() -> None:
    assert verdicts([trajectory(lr) for lr in RATES])[BEFORE] == "holds"
    assert verdicts([trajectory(0.1)])[BEFORE] == "cannot tell at this scale"  # one learning rate
    runs = [trajectory(lr, sharpness_peak=20, interpolated=20) for lr in RATES]
    for run in runs:  # ECE falls while sharpness rises, then both fall
        for row in run.rows:
            row["train/ece"] = 1.0 - (row["step"] or 0) / 200
    assert verdicts(runs)[BEFORE] == "does not hold"
    assert verdicts(runs)[WHOLE] == "cannot tell at this scale"


def test_peaks_at_about_the_same_time() -> None:
    assert between_peaks(trajectory(0.1, ece_peak=20, sharpness_peak=30)) == 1.5
    assert between_peaks(trajectory(0.1, ece_peak=1, sharpness_peak=25)) == 25
    assert between_peaks(trajectory(0.1, ece_peak=50, sharpness_peak=100)) is None  # ends at its peak
    near = [trajectory(lr, ece_peak=20, sharpness_peak=30) for lr in RATES]
    assert verdicts(near)[PEAKS] == "holds"
    assert verdicts([*near, trajectory(0.5, ece_peak=20, sharpness_peak=50)])[PEAKS] == "does not hold"
    assert verdicts([*near, trajectory(0.5, ece_peak=20, sharpness_peak=100)])[PEAKS] == "holds"
    assert verdicts([trajectory(0.1, sharpness_peak=100)])[PEAKS] == "cannot tell at this scale"


def test_a_peak_at_the_first_step_counts_as_one_step() -> None:
    run = trajectory(0.1, sharpness_peak=25)
    for row in run.rows:
        row["train/ece"] = math.exp(-(row["step"] or 0))
    assert between_peaks(run) == 25


def group(optimizer: str, sign: int) -> list[Trajectory]:
    """Four learning rates, the larger the flatter, and `sign` says whether also the better calibrated."""
    return [trajectory(lr, optimizer=optimizer, sharpness=1 / lr, ece=0.3 - sign * 0.1 * lr) for lr in RATES]


def test_runs_of_lower_sharpness_are_compared_within_an_optimizer() -> None:
    alike = [*group("gd", 1), *group("sgd", 1), *group("sam", 1)]
    assert verdicts(alike)[BETWEEN] == "holds"
    assert verdicts([*group("gd", -1), *group("sgd", -1)])[BETWEEN] == "does not hold"
    assert verdicts([*group("gd", 1), *group("sgd", -1)])[BETWEEN] == "cannot tell at this scale"
    assert verdicts(group("gd", 1))[BETWEEN] == "cannot tell at this scale"  # one optimizer has no interval


def test_a_learning_rate_counts_once_and_two_are_too_few() -> None:
    runs = [*group("gd", 1), trajectory(0.1, seed=1, sharpness=10, ece=0.29)]
    assert rank_between(runs, "gd", sampling="equal") == pytest.approx(1.0)
    assert rank_between(runs[:2], "gd", sampling="equal") is None
    assert rank_between([trajectory(lr) for lr in RATES], "gd", sampling="log") is None  # nothing varies


def test_the_table_has_a_row_per_optimizer() -> None:
    *_, table = outcome([*group("gd", 1), *group("sgd", -1)])["tables"]
    assert table.name == "between-runs"
    assert [(row[0], row[1]) for row in table.rows] == [("gd", 4), ("sgd", 4)]
    assert [row[2] for row in table.rows] == pytest.approx([1.0, -1.0])


def test_hardly_goes_along_needs_both_intervals_inside() -> None:
    claim = "test ECE hardly goes along with sharpness (GN, test set) under muon: |r| < 0.5"
    assert verdicts([trajectory(lr, optimizer="muon") for lr in RATES])[claim] == "does not hold"
    runs = [trajectory(lr, optimizer="muon") for lr in RATES]
    for run in runs:
        for k, row in enumerate(run.rows):
            row["test/ece"] = 0.1 + 0.05 * math.sin(40 * k)
    assert verdicts(runs)[claim] == "holds"
    assert verdicts(runs[:1])[claim] == "cannot tell at this scale"
    assert not [claim for claim in verdicts([trajectory(lr) for lr in RATES]) if "hardly" in claim]  # gd


def test_after_interpolation_test_ece_rises_while_sharpness_falls() -> None:
    claim = "after interpolation test ECE rises while the training set's sharpness falls under gd: r < 0"
    assert verdicts([trajectory(lr, interpolated=45) for lr in RATES])[claim] == "does not hold"  # both fall
    runs = [trajectory(lr, interpolated=45) for lr in RATES]
    for run in runs:
        for row in run.rows:
            row["test/ece"] = (row["step"] or 0) / 100
    assert verdicts(runs)[claim] == "holds"
    assert claim not in verdicts([trajectory(lr, interpolated=101) for lr in RATES])


def test_the_edge_comes_before_the_peak() -> None:
    claim = "under gd the training set's sharpness reaches 2/lr before training ECE peaks, in every run"
    assert verdicts([trajectory(lr, sharpness=2.5 / lr) for lr in RATES])[claim] == "holds"
    late = trajectory(0.1, sharpness=25.0, ece_peak=20, sharpness_peak=60)
    assert verdicts([trajectory(0.2, sharpness=12.5), late])[claim] == "does not hold"
    assert verdicts([trajectory(0.1, sharpness=25.0)])[claim] == "cannot tell at this scale"


def test_kce_is_compared_in_the_cells_of_the_papers_table() -> None:
    claim = "KCE gives r within 0.1 of ECE's, so it is no artefact of bins: equally spaced steps"
    off = [trajectory(lr, optimizer="bulk_sgd") for lr in RATES]
    for run in off:
        for row in run.rows:
            row["train/kce"] = 1 - (row["train/kce"] or 0)
    assert verdicts([*(trajectory(lr) for lr in RATES), *off])[claim] == "holds"
    for run in off:
        object.__setattr__(run.spec, "optimizer", trajectory(0.1).spec.optimizer)
    assert verdicts(off)[claim] == "does not hold"
