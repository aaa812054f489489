from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure

from surefoot.report.figures import bound_axes, course_axes, diagram_axes, fan_axes, phase_axes, write_figures
from surefoot.report.plots import colour_of
from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Row, Trajectory

KEYS = ("loss", "accuracy", "ece", "margin_mean", "ggn_sharpness", "margin_min", "margin_q01", "margin_q05")


def runs() -> list[Trajectory]:
    made = []
    for name, lr in (("gd", 0.1), ("gd", 0.2), ("adamw", 0.01)):
        spec = RunSpec.from_dict({"optimizer": {"name": name, "lr": lr}, "budget": 30})
        keys = (*KEYS, "margin_q25", "margin_q50", "margin_q75", "certified_ece", "bound_ece", "bound_ece_ours")
        rows: list[Row] = [
            {"step": step, **{f"{s}/{k}": step + lr for s in ("train", "test") for k in keys}} for step in range(12)
        ]
        rows[3]["train/ece"] = None  # a gap, not an error
        rows[-1] |= {"test/bin_01_count": 10, "test/bin_01_confidence": 0.4, "test/bin_01_right": 5}
        made.append(Trajectory.of(spec, rows))
    return made


def axes() -> Any:
    return Figure().subplots()


def test_a_course_has_one_line_per_run_in_its_colour_and_the_limits_of_stability() -> None:
    ax = axes()
    course_axes(runs(), "train/ggn_sharpness", ax)
    lines = ax.get_lines()
    assert [line.get_color() for line in lines[:3]] == [colour_of(name) for name in ("gd", "gd", "adamw")]
    assert list(lines[0].get_ydata()) == [step + 0.1 for step in range(12)]
    assert sorted(line.get_ydata()[0] for line in lines[3:]) == [10.0, 20.0]  # 2/lr of the two runs of gd
    assert lines[0].get_linestyle() != lines[1].get_linestyle()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("step", "train GN sharpness")


def test_a_gap_is_left_out_of_the_phase_plot() -> None:
    ax = axes()
    phase_axes(runs()[:1], "train", ax)
    assert len(ax.get_lines()[0].get_xdata()) == 11


def test_margins_bounds_and_diagram() -> None:
    ax = axes()
    fan_axes(runs()[0], "test", ax)
    assert len(ax.collections) == 3
    ax = axes()
    bound_axes(runs()[0], "ece", "test", ax)
    assert ax.get_yscale() == "log"
    ax = axes()
    diagram_axes(runs()[0], "test", ax)
    (segment,) = ax.containers[0].lines[2][0].get_segments()
    assert segment[:, 1].tolist() == pytest.approx([0.2366, 0.7634], abs=1e-4)  # Wilson's for 5 of 10


@pytest.mark.parametrize("kind", ["svg", "pdf", "png"])
def test_files_are_the_same_bytes_every_time(tmp_path: Path, kind: Any) -> None:
    first = write_figures(tmp_path / "a", runs(), formats=[kind])
    second = write_figures(tmp_path / "b", runs(), formats=[kind])
    assert len(first) == 15  # five quantities, the phase and the margins of two splits, one diagram
    for one, other in zip(first, second, strict=True):
        assert one.name == other.name
        assert one.read_bytes() == other.read_bytes()


def test_no_runs_have_no_figures(tmp_path: Path) -> None:
    assert write_figures(tmp_path, [], formats=["svg"]) == []
