"""The reliability diagram."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from surefoot.reliability_bin import ReliabilityBin
from surefoot.report.plots import OVER, UNDER, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def reliability_axes(bins: Sequence[ReliabilityBin], ax: "Axes") -> None:
    """Draw each bin's accuracy, with its interval, at its mean confidence, and what is missing to the diagonal.

    Bars have the width and place of their bin. An empty bin stays empty; a bin of accuracy 0 has a mark at 0.
    """
    from matplotlib.patches import Patch

    ax.plot([0, 1], [0, 1], color="grey", linewidth=0.8, linestyle="--")
    points = []
    for each in bins:
        if not each.count:
            continue
        width, gap = each.right - each.left, each.confidence - each.accuracy
        ax.bar(each.left, each.accuracy, width, align="edge", color="#bdbdbd", edgecolor="white", linewidth=0.5)
        colour = OVER if gap > 0 else UNDER
        ax.bar(each.left, gap, width, bottom=each.accuracy, align="edge", color=colour, alpha=0.35)
        points.append((each.confidence, each.accuracy, each.accuracy - each.low, each.high - each.accuracy))
    x, y, below, above = zip(*points, strict=True) if points else ([], [], [], [])
    ax.errorbar(x, y, yerr=[below, above], fmt="o", color="black", markersize=3, linewidth=1, capsize=2)
    signs = ((OVER, "overconfident"), (UNDER, "underconfident"))
    patches = [Patch(color=colour, alpha=0.35, label=label) for colour, label in signs]
    ax.legend(handles=patches, frameon=False, fontsize=8, loc="upper left")
    ax.set_xlim(-0.02, 1.02)  # points at 0 and 1 stay whole
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlabel("confidence")
    ax.set_ylabel("accuracy")


def histogram_axes(bins: Sequence[ReliabilityBin], ax: "Axes") -> None:
    """Draw each bin's share of the samples."""
    total = sum(each.count for each in bins)
    for each in bins:
        if each.count:
            ax.bar(each.left, each.count / total, each.right - each.left, align="edge", color="#636363")
    ax.set_xlim(0, 1)
    ax.set_xlabel("confidence")
    ax.set_ylabel("share of samples")


def reliability_figure(bins: Sequence[ReliabilityBin], *, title: str) -> str:
    """The diagram with the histogram beside it, as SVG. Orange is missing accuracy, blue missing confidence."""

    def draw(figure: "Figure") -> None:
        left, right = figure.subplots(1, 2, width_ratios=[3, 2])
        reliability_axes(bins, left)
        histogram_axes(bins, right)
        figure.suptitle(title, fontsize=9)

    return svg(draw, size=(7, 3.8), name="reliability")
