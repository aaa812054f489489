"""SGD beside SAM: reliability diagrams, histograms of confidence, and ECE along training and after maps."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from surefoot.diagnosis.bins import stored_bins
from surefoot.report.plots import Run, colour_of, svg
from surefoot.report.reliability import histogram_axes, reliability_axes
from surefoot.runs.trajectory import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAP = "test/ece_"


def beside(runs: Sequence[Run]) -> str:
    """Three rows of panels per network: diagrams, confidences, and what became of ECE; one colour per method."""
    held = [(spec, rows) for spec, rows in runs if rows]
    networks = list(dict.fromkeys(spec.network for spec, _ in held))
    methods = list(dict.fromkeys(spec.method for spec, _ in held))

    def draw(figure: "Figure") -> None:
        parts = figure.subfigures(max(1, len(networks)), 1, squeeze=False)[:, 0]
        for part, network in zip(parts, networks, strict=False):
            chosen = [(spec, rows) for spec, rows in held if spec.network == network]
            part.suptitle(network, fontsize=10)
            panels = part.subplots(3, max(3, len(methods)))
            for column, method in enumerate(methods):
                spec, rows = next(run for run in chosen if run[0].method == method)
                bins = stored_bins(rows[-1], "test")
                reliability_axes(bins, panels[0][column])
                panels[0][column].set_title(f"{method}, seed {spec.seed}", color=colour_of(spec.optimizer.name))
                histogram_axes(bins, panels[1][column])
                _means(rows[-1], panels[1][column])
            _curves(chosen, methods, "test/ece", "ECE", panels[2][0])
            _curves(chosen, methods, f"{_MAP}temperature", "TCE", panels[2][1])
            _bars(chosen, methods, panels[2][2])
            for ax in [*panels[0][len(methods) :], *panels[1][len(methods) :], *panels[2][3:]]:
                ax.set_axis_off()

    return svg(draw, size=(3.6 * max(3, len(methods)), 9 * max(1, len(networks))), name="sam-versus-sgd")


def _means(row: Row, ax: "Axes") -> None:
    for key, line in (("test/confidence", ":"), ("test/accuracy", "--")):
        ax.axvline(row.get(key) or 0.0, color="black", linestyle=line, linewidth=1)


def _curves(runs: Sequence[Run], methods: Sequence[str], key: str, name: str, ax: "Axes") -> None:
    for method in methods:
        group = [run for run in runs if run[0].method == method]
        by_step: dict[float, list[float]] = {}
        for _, rows in group:
            for row in rows:
                step, value = row["step"], row.get(key)
                if step and value is not None:
                    by_step.setdefault(step, []).append(value)
        points = sorted((step, sum(values) / len(values)) for step, values in by_step.items())
        if points:
            colour = colour_of(group[0][0].optimizer.name)
            ax.plot(*zip(*points, strict=True), color=colour, linewidth=1.2, label=method)
    ax.set(xlabel="step", ylabel=f"test {name}")
    ax.legend(frameon=False, fontsize=8)


def _bars(runs: Sequence[Run], methods: Sequence[str], ax: "Axes") -> None:
    maps = list(dict.fromkeys(key for _, rows in runs for key in rows[-1] if key.startswith(_MAP)))
    keys = ["test/ece", *maps]
    for place, method in enumerate(methods):
        group = [run for run in runs if run[0].method == method]
        values = [[value for _, rows in group if (value := rows[-1].get(key)) is not None] for key in keys]
        heights = [sum(part) / len(part) if part else 0.0 for part in values]
        at = [k + 0.8 * place / len(methods) for k in range(len(keys))]
        colour = colour_of(group[0][0].optimizer.name) if group else "grey"
        ax.bar(at, heights, 0.8 / len(methods), align="edge", color=colour)
    names = ["as it is", *(key.removeprefix(_MAP) for key in maps)]
    ax.set_xticks([k + 0.4 for k in range(len(keys))], names, rotation=30, fontsize=8)
    ax.set_ylabel("test ECE at the end")
