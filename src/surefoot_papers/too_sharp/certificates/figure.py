"""The bounds along training, beside what they bound."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from surefoot.report.plots import series, svg
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.figure import StudyFigure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST = 5  # columns
_PANELS = (
    ("certified_ece", (("bound_ece", "#D55E00"), ("bound_ece_ours", "#009E73")), "ECE"),
    ("certified_sharpness", (("bound_sharpness", "#D55E00"), ("bound_sharpness_ours", "#009E73")), "GN sharpness"),
)


def draw_bounds(runs: Sequence[Trajectory]) -> str:
    """The bounds on ECE and sharpness and what they bound over the steps, one column per run with the most steps."""
    longest = max((run.spec.budget for run in runs), default=0)
    chosen = [run for run in runs if len(run) and 2 * run.spec.budget >= longest][:_MOST]

    def draw(figure: "Figure") -> None:
        grid = figure.subplots(len(_PANELS), max(1, len(chosen)), squeeze=False, sharex="col", sharey="row")
        for column, run in enumerate(chosen):
            interpolating = run.steps[run["train/interpolating"] > 0]
            for axes, (measured, limits, name) in zip(grid[:, column], _PANELS, strict=True):
                axes.plot(*series(run, "step", f"train/{measured}"), color="#0072B2", label="measured")
                for key, colour in limits:
                    label = "ours" if key.endswith("ours") else "Theorem 4.1"
                    axes.plot(*series(run, "step", f"train/{key}"), color=colour, linestyle="--", label=label)
                if len(interpolating):
                    axes.axvline(float(interpolating[0]), color="grey", linestyle=":", linewidth=1)
                axes.set_yscale("log")
                if column == 0:
                    axes.set_ylabel(name)
            grid[0][column].set_title(f"{run.spec.variant}, lr {run.lr:.4g}", fontsize=8)
            grid[-1][column].set_xlabel("step")
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)

    return svg(draw, size=(2.6 * max(1, len(chosen)), 5), name="certificates")


FIGURES = (
    StudyFigure(
        name="certificates",
        heading="The bounds along training",
        caption="Bound (dashed) and measured value (solid) on the training set; dotted: interpolation.",
        draw=draw_bounds,
    ),
)
