"""Calibration error against the severity of a corruption."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from surefoot.report.plots import OPTIMIZER_COLOURS, Run, svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ECE = re.compile(r"(\w+)-([1-5])/ece")
_OTHERS = ("#0072B2", "#009E73", "#D55E00", "#56B4E9", "#F0E442", "#777777")  # methods that are no optimizer alone
_DASHES = {"mc_dropout": ":", "deep_ensemble": "--"}


def severities(runs: Sequence[Run]) -> str:
    """Mean ECE over seeds against severity, 0 for clean images, one panel per corruption and one line per method."""
    ends: dict[str, list[dict[str, float | None]]] = {}
    for spec, rows in runs:
        if rows:
            ends.setdefault(spec.method, []).append(rows[-1])
    found = [match for rows in ends.values() for key in rows[0] if (match := _ECE.fullmatch(key))]
    corruptions = list(dict.fromkeys(match[1] for match in found))
    steps = sorted({int(match[2]) for match in found})
    plain = list(dict.fromkeys(_split(method)[0] for method in ends))
    others = [name for name in plain if name not in OPTIMIZER_COLOURS]
    colours = OPTIMIZER_COLOURS | {name: _OTHERS[k % len(_OTHERS)] for k, name in enumerate(others)}

    def draw(figure: "Figure") -> None:
        panels = figure.subplots(1, max(1, len(corruptions)), sharey=True, squeeze=False)[0]
        for axes, corruption in zip(panels, corruptions, strict=False):
            for method, rows in ends.items():
                name, ensemble = _split(method)
                keys = ["test/ece", *(f"{corruption}-{step}/ece" for step in steps)]
                means = [_mean([row.get(key) for row in rows]) for key in keys]
                axes.plot(
                    [0, *steps], means, _DASHES.get(ensemble, "-"), color=colours[name], linewidth=1.2, label=method
                )
            axes.set(title=corruption.replace("_", " "), xlabel="severity")
        panels[0].set_ylabel("ECE")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)

    return svg(draw, size=(3.4 * max(1, len(corruptions)), 4.4), name="shift")


def _split(method: str) -> tuple[str, str]:
    """A method without its ensemble, and the ensemble."""
    rest, _, last = method.rpartition(" + ")
    return (rest, last) if last in _DASHES else (method, "")


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else float("nan")
