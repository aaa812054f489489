"""The figure of the coupling study: calibration error and curvature of every optimizer, beside each other."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from surefoot.report.figures import course_axes, phase_axes
from surefoot.report.plots import Run, svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def together(runs: Sequence[Run]) -> str:
    """A column per optimizer: training ECE and sharpness over steps, then ECE against sharpness, training and test."""
    optimizers = list(dict.fromkeys(spec.optimizer.name for spec, _ in runs))

    def draw(figure: "Figure") -> None:
        grid = figure.subplots(4, len(optimizers), squeeze=False)
        for column, optimizer in zip(grid.T, optimizers, strict=True):
            own = [run for run in runs if run[0].optimizer.name == optimizer]
            column[0].set_title(optimizer)
            course_axes(own, "train/ece", column[0])
            course_axes(own, "train/ggn_sharpness", column[1])
            phase_axes(own, "train", column[2])
            phase_axes(own, "test", column[3])

    return svg(draw, size=(2.6 * len(optimizers), 8.4), name="coupling")
