"""Calibration error against the severity of a corruption."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from surefoot.report.plots import OPTIMIZER_COLOURS, svg
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.figure import StudyFigure
from surefoot_papers.sam_calibration.shift._keys import corrupted_test_key

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_OTHERS = ("#0072B2", "#009E73", "#D55E00", "#56B4E9", "#F0E442", "#777777")  # methods that are no optimizer alone
_DASHES = {"mc_dropout": ":", "deep_ensemble": "--"}


def severities(runs: Sequence[Trajectory]) -> str:
    """Mean ECE over seeds against severity, 0 for clean images, one panel per corruption and one line per method."""
    groups: dict[str, list[Trajectory]] = {}
    for run in runs:
        if len(run):
            groups.setdefault(run.spec.method, []).append(run)
    keys = [parts for group in groups.values() for key in group[0].columns if (parts := corrupted_test_key(key))]
    corruptions = list(dict.fromkeys(parts.corruption for parts in keys if parts.quantity == "ece"))
    steps = sorted({parts.severity for parts in keys if parts.quantity == "ece"})
    colours = _colours(groups)

    def draw(figure: "Figure") -> None:
        panels = figure.subplots(1, max(1, len(corruptions)), sharey=True, squeeze=False)[0]
        for axes, corruption in zip(panels, corruptions, strict=False):
            for method, group in groups.items():
                name, ensemble = _split(method)
                means = [_mean(group, key) for key in ("test/ece", *(f"{corruption}-{step}/ece" for step in steps))]
                axes.plot(
                    [0, *steps], means, _DASHES.get(ensemble, "-"), color=colours[name], linewidth=1.2, label=method
                )
            axes.set(title=corruption.replace("_", " "), xlabel="severity")
        panels[0].set_ylabel("ECE")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)

    return svg(draw, size=(3.4 * max(1, len(corruptions)), 4.4), name="shift")


def _colours(methods: Iterable[str]) -> dict[str, str]:
    """A colour for each method, which it shares with its ensembles."""
    plain = dict.fromkeys(_split(method)[0] for method in methods)
    others = [name for name in plain if name not in OPTIMIZER_COLOURS]
    return OPTIMIZER_COLOURS | {name: _OTHERS[k % len(_OTHERS)] for k, name in enumerate(others)}


def _split(method: str) -> tuple[str, str]:
    """A method without its ensemble, and the ensemble."""
    rest, _, part = method.rpartition(" + ")
    return (rest, part) if part in _DASHES else (method, "")


def _mean(runs: Sequence[Trajectory], key: str) -> float:
    values = [run.last(key) for run in runs if math.isfinite(run.last(key))]
    return sum(values) / len(values) if values else math.nan


SEVERITIES = StudyFigure(
    name="shift",
    heading="Calibration under corruption",
    caption="Mean ECE over seeds against severity, 0 for clean images; dotted: MC-Dropout, dashed: ensembles.",
    draw=severities,
)
