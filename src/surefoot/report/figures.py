"""Figures for papers: one function per panel that draws into given axes, and files at the width of a column."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from surefoot.diagnosis.facts import bin_groups, edge
from surefoot.files import write_atomically
from surefoot.report.charts import BOUNDS, QUANTITIES
from surefoot.report.plots import OVER, UNDER, colour_of, figure_bytes, series
from surefoot.runs.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Format = Literal["svg", "pdf", "png"]
COLUMN = 3.4  # inches, the width of a column of two
_DASHES = ("-", "--", ":", "-.")
_SPLITS = ("train", "test")


def course_axes(runs: Sequence[Trajectory], key: str, ax: "Axes") -> None:
    """Draw a quantity over steps, one colour per optimizer, one dash per learning rate; dotted in sharpness: 2/lr."""
    split, _, name = key.partition("/")
    for run in runs:
        ax.plot(*series(run, "step", key), color=colour_of(run.optimizer), linestyle=_dash(runs, run), linewidth=1)
    if name == "ggn_sharpness":
        top = ax.get_ylim()[1]  # the axis fits the measurements; a line above them stays out of sight
        edges = {(limit, run.optimizer) for run in runs if (limit := edge(run.spec)) is not None}
        for limit, optimizer in sorted(edges):
            ax.axhline(limit, color=colour_of(optimizer), linestyle=(0, (1, 2)), linewidth=0.8)
        ax.set_ylim(0, top)
    ax.set_xlabel("step")
    ax.set_ylabel(f"{split} {QUANTITIES.get(name, name)}")


def phase_axes(runs: Sequence[Trajectory], split: str, ax: "Axes") -> None:
    """Draw ECE against sharpness along each run: a dot at the first step, a cross at the last."""
    for run in runs:
        colour = colour_of(run.optimizer)
        x, y = series(run, f"{split}/ggn_sharpness", f"{split}/ece")
        if x:
            ax.plot(x, y, color=colour, linestyle=_dash(runs, run), linewidth=1)
            ax.plot(x[0], y[0], "o", color=colour, markersize=3)
            ax.plot(x[-1], y[-1], "x", color=colour, markersize=5)
    ax.set_xlabel(f"{split} GN sharpness")
    ax.set_ylabel(f"{split} ECE")


def fan_axes(run: Trajectory, split: str, ax: "Axes") -> None:
    """Draw the quantiles of the margin over the steps of one run: line the median, dotted the smallest."""
    for low, opacity in (("q01", 0.15), ("q05", 0.2), ("q25", 0.3)):
        steps, bottom, top = run.measured("step", f"{split}/margin_{low}", f"{split}/margin_q75")
        ax.fill_between(steps, bottom, top, color=UNDER, alpha=opacity, lw=0)
    ax.plot(*series(run, "step", f"{split}/margin_q50"), color=UNDER, linewidth=1)
    ax.plot(*series(run, "step", f"{split}/margin_min"), color=UNDER, linewidth=1, linestyle=":")
    ax.axhline(0, color="grey", linewidth=0.6)
    ax.set_xlabel("step")
    ax.set_ylabel(f"{split} margin (logits)")


def bound_axes(run: Trajectory, what: str, split: str, ax: "Axes") -> None:
    """Draw bounds and what they bound over the steps of one run, on a log scale."""
    names = ("measured", "Theorem 4.1", "first step of its proof (ours)")
    for key, name, colour in zip(BOUNDS[what], names, (UNDER, OVER, "#009E73"), strict=True):
        ax.plot(*series(run, "step", f"{split}/{key}"), color=colour, linewidth=1, label=name)
    ax.set_yscale("log")
    ax.set_xlabel("step")
    ax.set_ylabel(f"{split} {'ECE' if what == 'ece' else 'GN sharpness'}")
    ax.legend(frameon=False, fontsize=7)


def diagram_axes(run: Trajectory, split: str, ax: "Axes") -> None:
    """Draw the reliability diagram of the last observation of a run that was observed with `reliability`."""
    groups = bin_groups(run.at(-1), split)
    ax.plot([0, 1], [0, 1], color="grey", linewidth=0.8, linestyle="--")
    ax.errorbar(
        [each.confidence for each in groups],
        [each.accuracy for each in groups],
        yerr=[[each.high - each.gap for each in groups], [each.gap - each.low for each in groups]],
        fmt="o",
        color="black",
        markersize=3,
        linewidth=1,
    )
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel="confidence", ylabel=f"{split} accuracy")


def write_figures(folder: Path, runs: Sequence[Trajectory], *, formats: Sequence[Format]) -> list[Path]:
    """Write every panel that the runs have numbers for, in each format, always the same bytes; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, draw in _panels([run for run in runs if len(run)]).items():

        def fill(figure: "Figure", draw: "Callable[[Axes], None]" = draw) -> None:
            draw(figure.subplots())

        for kind in formats:
            path = folder / f"{name}.{kind}"
            write_atomically(path, figure_bytes(fill, size=(COLUMN, 2.5), name=name, format=kind))
            written.append(path)
    return written


def _panels(runs: Sequence[Trajectory]) -> "dict[str, Callable[[Axes], None]]":
    keys = {key for run in runs for key in run.columns}
    panels: dict[str, Callable[[Axes], None]] = {}
    for split in _SPLITS:
        for name in QUANTITIES:
            if f"{split}/{name}" in keys:
                panels[f"{split}-{name}"] = partial(course_axes, runs, f"{split}/{name}")
        if {f"{split}/ece", f"{split}/ggn_sharpness"} <= keys:
            panels[f"{split}-phase"] = partial(phase_axes, runs, split)
        if runs and f"{split}/margin_q50" in runs[0]:
            panels[f"{split}-margins"] = partial(fan_axes, runs[0], split)
        if runs and bin_groups(runs[0].at(-1), split):
            panels[f"{split}-reliability"] = partial(diagram_axes, runs[0], split)
    return panels


def _dash(runs: Sequence[Trajectory], run: Trajectory) -> str:
    rates = sorted({each.lr for each in runs if each.optimizer == run.optimizer})
    return _DASHES[rates.index(run.lr) % len(_DASHES)] if run.lr in rates else "-"
