"""Figures for papers: one function per panel that draws into given axes, and files at the width of a column."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from surefoot.diagnosis.facts import edge, learning_rate, row_bins
from surefoot.files import write_atomically
from surefoot.report.charts import BOUNDS, QUANTITIES
from surefoot.report.plots import OVER, UNDER, Run, colour_of, figure_bytes, series
from surefoot.runs.trajectory import Row
from surefoot.runs.spec import RunSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Format = Literal["svg", "pdf", "png"]
COLUMN = 3.4  # inches, the width of a column of two
_DASHES = ("-", "--", ":", "-.")
_SPLITS = ("train", "test")


def course_axes(runs: Sequence[Run], key: str, ax: "Axes") -> None:
    """Draw a quantity over steps, one colour per optimizer, one dash per learning rate; dotted in sharpness: 2/lr."""
    split, _, name = key.partition("/")
    for spec, rows in runs:
        ax.plot(
            *series(rows, "step", key), color=colour_of(spec.optimizer.name), linestyle=_dash(runs, spec), linewidth=1
        )
    if name == "ggn_sharpness":
        top = ax.get_ylim()[1]  # the axis fits the measurements; a line above them stays out of sight
        edges = {(limit, spec.optimizer.name) for spec, _ in runs if (limit := edge(spec)) is not None}
        for limit, optimizer in sorted(edges):
            ax.axhline(limit, color=colour_of(optimizer), linestyle=(0, (1, 2)), linewidth=0.8)
        ax.set_ylim(0, top)
    ax.set_xlabel("step")
    ax.set_ylabel(f"{split} {QUANTITIES.get(name, name)}")


def phase_axes(runs: Sequence[Run], split: str, ax: "Axes") -> None:
    """Draw ECE against sharpness along each run: a dot at the first step, a cross at the last."""
    for spec, rows in runs:
        colour = colour_of(spec.optimizer.name)
        x, y = series(rows, f"{split}/ggn_sharpness", f"{split}/ece")
        if x:
            ax.plot(x, y, color=colour, linestyle=_dash(runs, spec), linewidth=1)
            ax.plot(x[0], y[0], "o", color=colour, markersize=3)
            ax.plot(x[-1], y[-1], "x", color=colour, markersize=5)
    ax.set_xlabel(f"{split} GN sharpness")
    ax.set_ylabel(f"{split} ECE")


def fan_axes(rows: Sequence[Row], split: str, ax: "Axes") -> None:
    """Draw the quantiles of the margin over the steps of one run: line the median, dotted the smallest."""
    for low, opacity in (("q01", 0.15), ("q05", 0.2), ("q25", 0.3)):
        held = [row for row in rows if None not in (row.get(f"{split}/margin_{low}"), row.get(f"{split}/margin_q75"))]
        steps, bottom = series(held, "step", f"{split}/margin_{low}")
        ax.fill_between(steps, bottom, series(held, "step", f"{split}/margin_q75")[1], color=UNDER, alpha=opacity, lw=0)
    ax.plot(*series(rows, "step", f"{split}/margin_q50"), color=UNDER, linewidth=1)
    ax.plot(*series(rows, "step", f"{split}/margin_min"), color=UNDER, linewidth=1, linestyle=":")
    ax.axhline(0, color="grey", linewidth=0.6)
    ax.set_xlabel("step")
    ax.set_ylabel(f"{split} margin (logits)")


def bound_axes(rows: Sequence[Row], what: str, split: str, ax: "Axes") -> None:
    """Draw bounds and what they bound over the steps of one run, on a log scale."""
    names = ("measured", "Theorem 4.1", "first step of its proof (ours)")
    for key, name, colour in zip(BOUNDS[what], names, (UNDER, OVER, "#009E73"), strict=True):
        ax.plot(*series(rows, "step", f"{split}/{key}"), color=colour, linewidth=1, label=name)
    ax.set_yscale("log")
    ax.set_xlabel("step")
    ax.set_ylabel(f"{split} {'ECE' if what == 'ece' else 'GN sharpness'}")
    ax.legend(frameon=False, fontsize=7)


def diagram_axes(row: Row, split: str, ax: "Axes") -> None:
    """Draw the reliability diagram of one observation of a run that was observed with `reliability`."""
    held = row_bins(row, split)
    ax.plot([0, 1], [0, 1], color="grey", linewidth=0.8, linestyle="--")
    ax.errorbar(
        [each.confidence for each in held],
        [each.accuracy for each in held],
        yerr=[[each.high - each.gap for each in held], [each.gap - each.low for each in held]],
        fmt="o",
        color="black",
        markersize=3,
        linewidth=1,
    )
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel="confidence", ylabel=f"{split} accuracy")


def write_figures(folder: Path, runs: Sequence[Run], *, formats: Sequence[Format]) -> list[Path]:
    """Write every panel that the runs have numbers for, in each format, always the same bytes; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, draw in _panels([run for run in runs if run[1]]).items():

        def fill(figure: "Figure", draw: "Callable[[Axes], None]" = draw) -> None:
            draw(figure.subplots())

        for kind in formats:
            path = folder / f"{name}.{kind}"
            write_atomically(path, figure_bytes(fill, size=(COLUMN, 2.5), name=name, format=kind))
            written.append(path)
    return written


def _panels(runs: Sequence[Run]) -> "dict[str, Callable[[Axes], None]]":
    keys = {key for _, rows in runs for key in rows[-1]}
    panels: dict[str, Callable[[Axes], None]] = {}
    for split in _SPLITS:
        for name in QUANTITIES:
            if f"{split}/{name}" in keys:
                panels[f"{split}-{name}"] = partial(course_axes, runs, f"{split}/{name}")
        if {f"{split}/ece", f"{split}/ggn_sharpness"} <= keys:
            panels[f"{split}-phase"] = partial(phase_axes, runs, split)
        if runs and f"{split}/margin_q50" in runs[0][1][-1]:
            panels[f"{split}-margins"] = partial(fan_axes, runs[0][1], split)
        if runs and row_bins(runs[0][1][-1], split):
            panels[f"{split}-reliability"] = partial(diagram_axes, runs[0][1][-1], split)
    return panels


def _dash(runs: Sequence[Run], spec: RunSpec) -> str:
    rates = sorted({learning_rate(each) for each, _ in runs if each.optimizer.name == spec.optimizer.name})
    rate = learning_rate(spec)
    return _DASHES[rates.index(rate) % len(_DASHES)] if rate in rates else "-"
