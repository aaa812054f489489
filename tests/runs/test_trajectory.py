import math

import numpy as np
import pytest

from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Trajectory

SPEC = RunSpec.from_dict(
    {"optimizer": {"name": "gd", "lr": 0.5}, "budget": 40, "schedule": {"every": 10, "per_decade": 3}}
)
ROWS = [
    {"step": 0, "test/ece": 0.1, "train/margin_min": -1.0},
    {"step": 2, "test/ece": None, "train/margin_min": None},
    {"step": 10, "test/ece": 0.3, "train/margin_min": 0.5},
    {"step": 20, "test/ece": 0.3, "train/margin_min": 0.7, "late": 4},
]
RUN = Trajectory.of(SPEC, ROWS)


def test_what_was_not_measured_is_nan_and_never_zero() -> None:
    assert RUN["test/ece"].dtype == np.float64
    np.testing.assert_array_equal(RUN["test/ece"], [0.1, math.nan, 0.3, 0.3])
    np.testing.assert_array_equal(RUN["late"], [math.nan] * 3 + [4.0])
    np.testing.assert_array_equal(RUN["never"], [math.nan] * 4)
    assert math.isnan(RUN.last("never"))
    assert math.isnan(RUN.first("late"))


def test_ends_peaks_and_parts() -> None:
    assert (RUN.first("test/ece"), RUN.last("late"), RUN.peak("test/ece"), RUN.peak("never")) == (0.1, 4.0, 2, None)
    assert RUN.interpolated == 10
    assert RUN.part(RUN["test/ece"] > 0.2).steps.tolist() == [10, 20]
    assert RUN.part(slice(1, None)).at(0)["step"] == 2
    assert [column.tolist() for column in RUN.measured("step", "test/ece")] == [[0, 10, 20], [0.1, 0.3, 0.3]]
    assert "late" in RUN
    assert "never" not in RUN
    assert (RUN.has("late"), RUN.has("late", "never")) == (True, False)


@pytest.mark.parametrize(
    ("sampling", "window", "steps"),
    [
        ("equal", "whole", [0, 10, 20]),
        ("equal", "before", [0, 10]),
        ("equal", "after", [10, 20]),
        ("equal", "first 50 %", [0, 10]),
        ("log", "whole", [0, 2, 10]),
    ],
)
def test_windows_of_the_grids(sampling: str, window: str, steps: list[int]) -> None:
    assert RUN.window(sampling, window).steps.tolist() == steps  # type: ignore[arg-type]
    assert RUN.window(sampling, window) is RUN.window(sampling, window)  # type: ignore[arg-type]


def test_a_run_that_never_interpolates_is_all_before() -> None:
    run = Trajectory.of(SPEC, ROWS[:2])
    assert run.interpolated is None
    assert len(run.window("equal", "after")) == 0


def test_nothing_observed() -> None:
    run = Trajectory.of(SPEC, [])
    assert len(run) == 0
    assert math.isnan(run.last("test/ece"))
    assert run.peak("test/ece") is None
    assert len(run.window("equal", "first 25 %")) == 0
