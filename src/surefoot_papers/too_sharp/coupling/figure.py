"""The figures of the coupling study: calibration error beside curvature, and their correlation by where a run ends."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from surefoot.report.figures import course_axes, phase_axes
from surefoot.report.plots import colour_of, evenly, svg
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.correlation import FEWEST, NAMES, PAIRS, SHARPNESSES, Pair, r_of
from surefoot.studies.figure import StudyFigure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_CURVES = 60  # in one panel


def together(runs: Sequence[Trajectory]) -> str:
    """A column per optimizer: training ECE and sharpness over steps, then ECE against sharpness, training and test."""
    optimizers = list(dict.fromkeys(run.optimizer for run in runs))

    def draw(figure: "Figure") -> None:
        grid = figure.subplots(4, len(optimizers), squeeze=False)
        for column, optimizer in zip(grid.T, optimizers, strict=True):
            own = [run for run in runs if run.optimizer == optimizer]
            column[0].set_title(optimizer)
            course_axes(own, "train/ece", column[0])
            course_axes(own, "train/ggn_sharpness", column[1])
            phase_axes(own, "train", column[2])
            phase_axes(own, "test", column[3])

    return svg(draw, size=(2.6 * len(optimizers), 8.4), name="coupling")


def correlation_by_end(runs: Sequence[Trajectory]) -> str:
    """Pearson r of ECE with sharpness over equally spaced steps from the start to each end; a panel per sharpness."""
    optimizers = list(dict.fromkeys(run.optimizer for run in runs))
    pairs = [pair for pair in PAIRS if pair[1] == "ece" and any(run.has(SHARPNESSES[pair[2]]) for run in runs)]

    def draw(figure: "Figure") -> None:
        panels = figure.subplots(1, max(1, len(pairs)), sharey=True, squeeze=False)[0]
        for axes, pair in zip(panels, pairs, strict=False):
            for run in evenly(runs, MOST_CURVES):
                axes.plot(*by_end(run, pair), color=colour_of(run.optimizer), linewidth=1)
            axes.axhline(0, color="grey", linewidth=0.6)
            axes.set_title(f"{pair[0]} ECE, {NAMES[pair[2]]}", fontsize=9)
        figure.supxlabel("end of the window, share of the run", fontsize=10)
        panels[0].set_ylabel("Pearson r")
        panels[0].set_ylim(-1.05, 1.05)
        for optimizer in optimizers:
            panels[0].plot([], [], color=colour_of(optimizer), label=optimizer)
        panels[0].legend(frameon=False, fontsize=8)

    return svg(draw, size=(10, 3.4), name="correlation-by-end")


def by_end(run: Trajectory, pair: Pair) -> tuple[list[float], list[float]]:
    """Each end of the run, as a share of it, and r up to there; ends at which r is not defined are left out."""
    split, error, sharpness = pair
    grid = run.window("equal")
    first, second = grid[f"{split}/{error}"], grid[SHARPNESSES[sharpness]]
    measured = np.isfinite(first) & np.isfinite(second)
    ends, correlations = [], []
    for end in range(FEWEST, len(grid) + 1):
        where = measured[:end]
        r = r_of(first[:end][where].tolist(), second[:end][where].tolist(), fewest=FEWEST)
        if r is not None:
            ends.append(float(grid.steps[end - 1] / grid.steps[-1]))
            correlations.append(r)
    return ends, correlations


FIGURES = (
    StudyFigure(
        name="coupling",
        heading="Calibration error and sharpness by optimizer",
        caption="Training ECE and GN sharpness (dotted: 2/lr), then ECE against sharpness, training and test: a dot at "
        "the first step, a cross at the last; dashes mark learning rates.",
        draw=together,
    ),
    StudyFigure(
        name="correlation-by-end",
        heading="Together?",
        caption="How the correlation depends on where the run is taken to end. Where a study has more than "
        f"{MOST_CURVES} runs, {MOST_CURVES} of them, evenly taken.",
        draw=correlation_by_end,
    ),
)
