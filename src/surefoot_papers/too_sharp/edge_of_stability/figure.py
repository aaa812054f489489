"""The figure of the edge-of-stability study: curvature beside 2 / lr."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from surefoot.report.plots import evenly, series, svg
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.figure import StudyFigure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_PANELS = 6
_CURVES = (
    ("train/hessian_sharpness", "largest eigenvalue of the Hessian", "#0072B2"),
    ("train/ggn_sharpness", "of the Gauss-Newton matrix", "#009E73"),
    ("train/batch_sharpness", "batch sharpness", "#E69F00"),
)


def stability(runs: Sequence[Trajectory]) -> str:
    """Largest eigenvalues and batch sharpness of the training set over the steps, one panel per run, at most six."""
    chosen = evenly(runs, MOST_PANELS)

    def draw(figure: "Figure") -> None:
        panels = figure.subplots(1, len(chosen), squeeze=False)[0]
        for axes, run in zip(panels, chosen, strict=True):
            edge = 2 / run.lr
            for key, label, colour in _CURVES:
                axes.plot(*series(run, "step", key), label=label, color=colour, linewidth=1)
            axes.axhline(edge, color="black", linestyle="--", linewidth=1)
            axes.set(title=f"{run.optimizer}, lr {run.lr:.4g}, seed {run.spec.seed}", xlabel="step")
            axes.set_ylim(0, 2 * edge)
        panels[0].set_ylabel("curvature")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)

    return svg(draw, size=(4 * len(chosen), 3.6), name="stability")


FIGURES = (
    StudyFigure(
        name="stability",
        heading="The study's own figure",
        caption=f"One panel per run, at most {MOST_PANELS}, evenly taken; dashed: 2/lr.",
        draw=stability,
    ),
)
