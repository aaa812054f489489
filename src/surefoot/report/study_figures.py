"""Figures that any study can show."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from surefoot.report.plots import colour_of, series, svg
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.figure import StudyFigure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DASHES = ("-", "--", ":", "-.")  # variants of one optimizer


def _comparison(runs: Sequence[Trajectory]) -> str:
    """Training ECE, test ECE and sharpness over the steps of all runs, one colour per optimizer."""
    curves = (("train/ece", "train ECE"), ("test/ece", "test ECE"), ("train/ggn_sharpness", "GN sharpness"))
    variants = list(dict.fromkeys(run.spec.variant for run in runs))
    styles = {variant: (colour_of(variant.split()[0]), _dash(variants, variant)) for variant in variants}

    def draw(figure: "Figure") -> None:
        panels = figure.subplots(1, len(curves))
        for axes, (key, name) in zip(panels, curves, strict=True):
            for run in runs:
                colour, dashes = styles[run.spec.variant]
                axes.plot(*series(run, "step", key), color=colour, linestyle=dashes, linewidth=0.9)
            axes.set(title=name, xlabel="step")
        panels[-1].set_yscale("log")
        for variant, (colour, dashes) in styles.items():
            panels[0].plot([], [], color=colour, linestyle=dashes, label=variant)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)

    return svg(draw, size=(10, 4), name="comparison")


def _dash(variants: Sequence[str], variant: str) -> str:
    """The line style that tells a variant from others of its optimizer."""
    same = [other for other in variants if other.split()[0] == variant.split()[0]]
    return _DASHES[same.index(variant) % len(_DASHES)]


COMPARISON = StudyFigure(
    name="comparison",
    heading="The study's own figure",
    caption="One colour per optimizer, one line per learning rate and seed.",
    draw=_comparison,
)
