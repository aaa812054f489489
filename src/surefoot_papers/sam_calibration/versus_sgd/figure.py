"""SGD beside SAM: reliability diagrams, histograms of confidence, and ECE along training and after maps."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from surefoot.diagnosis.bins import stored_bins
from surefoot.report.plots import colour_of, svg
from surefoot.report.reliability import histogram_axes, reliability_axes
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.figure import StudyFigure
from surefoot_papers.sam_calibration.versus_sgd.analysis import (
    ECE,
    ECE_AFTER,
    TCE,
    maps_of,
    mean_by_step,
    method_runs,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def beside(runs: Sequence[Trajectory]) -> str:
    """Three rows of panels per network: diagrams, confidences, and what became of ECE; one colour per method."""
    observed = [run for run in runs if len(run)]
    networks = list(dict.fromkeys(run.spec.network for run in observed))
    methods = list(dict.fromkeys(run.spec.method for run in observed))

    def draw(figure: "Figure") -> None:
        parts = figure.subfigures(max(1, len(networks)), 1, squeeze=False)[:, 0]
        for part, network in zip(parts, networks, strict=False):
            group = [run for run in observed if run.spec.network == network]
            part.suptitle(network, fontsize=10)
            panels = part.subplots(3, max(3, len(methods)))
            for column, method in enumerate(methods):
                _ends(group, method, panels[0][column], panels[1][column])
            _curves(group, methods, ECE, "ECE", panels[2][0])
            _curves(group, methods, TCE, "TCE", panels[2][1])
            _bars(group, methods, panels[2][2])
            for ax in [*panels[0][len(methods) :], *panels[1][len(methods) :], *panels[2][3:]]:
                ax.set_axis_off()

    return svg(draw, size=(3.6 * max(3, len(methods)), 9 * max(1, len(networks))), name="sam-versus-sgd")


def _ends(runs: Sequence[Trajectory], method: str, diagram: "Axes", histogram: "Axes") -> None:
    """The reliability diagram and the confidences of the method's first run; empty panels where it has none."""
    run = next(iter(method_runs(runs, method)), None)
    if run is None:
        diagram.set_axis_off()
        histogram.set_axis_off()
        return
    bins = stored_bins(run.at(-1), "test")
    reliability_axes(bins, diagram)
    diagram.set_title(f"{method}, seed {run.spec.seed}", color=colour_of(run.optimizer))
    histogram_axes(bins, histogram)
    for key, line in (("test/confidence", ":"), ("test/accuracy", "--")):
        if math.isfinite(run.last(key)):
            histogram.axvline(run.last(key), color="black", linestyle=line, linewidth=1)


def _curves(runs: Sequence[Trajectory], methods: Sequence[str], key: str, name: str, ax: "Axes") -> None:
    for method in methods:
        group = method_runs(runs, method)
        means = mean_by_step(group, key)
        if means:
            ax.plot(*zip(*means.items(), strict=True), color=_colour(group), linewidth=1.2, label=method)
    ax.set(xlabel="step", ylabel=f"test {name}")
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, fontsize=8)


def _bars(runs: Sequence[Trajectory], methods: Sequence[str], ax: "Axes") -> None:
    maps = maps_of(runs)
    keys = [ECE, *(f"{ECE_AFTER}{name}" for name in maps)]
    for place, method in enumerate(methods):
        group = method_runs(runs, method)
        for k, key in enumerate(keys):
            values = [run.last(key) for run in group if math.isfinite(run.last(key))]
            if values:
                at, width = k + 0.8 * place / len(methods), 0.8 / len(methods)
                ax.bar(at, sum(values) / len(values), width, align="edge", color=_colour(group))
    ax.set_xticks([k + 0.4 for k in range(len(keys))], ["as it is", *maps], rotation=30, fontsize=8)
    ax.set_ylabel("test ECE at the end")


def _colour(runs: Sequence[Trajectory]) -> str:
    return colour_of(runs[0].optimizer)


BESIDE = StudyFigure(
    name="sam_versus_sgd",
    heading="SGD beside SAM",
    caption="For each network: reliability diagrams and confidences of one seed, dotted the mean confidence, dashed "
    "the accuracy; ECE and TCE along training and ECE after maps, means over seeds.",
    draw=beside,
)
