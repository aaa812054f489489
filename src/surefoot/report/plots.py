"""Figures as SVG text, the same bytes every time."""

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from surefoot.runs.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_T = TypeVar("_T")

# One fixed colour per optimizer everywhere, most of them from Okabe and Ito's palette for the colour-blind.
OPTIMIZER_COLOURS = {
    "gd": "#0072B2",
    "sgd": "#E69F00",
    "adamw": "#009E73",
    "muon": "#D55E00",
    "sam": "#CC79A7",
    "csam": "#882255",
    "bulk_sgd": "#56B4E9",
    "asam": "#332288",
    "bsam": "#117733",
    "dominant_sgd": "#999933",
    "ssam": "#AA4499",
    "vasso": "#661100",
}
OTHER_COLOUR = "#777777"
OVER, UNDER = "#D55E00", "#0072B2"  # over- and underconfident


def evenly(items: Sequence[_T], most: int) -> list[_T]:
    """At most so many of the items, at equal distances, the first and the last among them.

    >>> evenly(range(10), 4)
    [0, 3, 6, 9]
    """
    if len(items) <= most:
        return list(items)
    return [items[round(k * (len(items) - 1) / (most - 1))] for k in range(most)]


def colour_of(optimizer: str) -> str:
    """The optimizer's colour."""
    return OPTIMIZER_COLOURS.get(optimizer, OTHER_COLOUR)


def svg(draw: "Callable[[Figure], None]", *, size: tuple[float, float], name: str) -> str:
    """The figure that `draw` fills, as the text of an <svg> element."""
    text = figure_bytes(draw, size=size, name=name, format="svg").decode()
    return text[text.index("<svg") :]


def figure_bytes(draw: "Callable[[Figure], None]", *, size: tuple[float, float], name: str, format: str) -> bytes:
    """The figure that `draw` fills as an svg, pdf or png file, the same bytes every time: no date, no random ids."""
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("Figures need matplotlib: pip install 'surefoot[report]'.") from None

    nothing = {"svg": ("Date", "Creator"), "pdf": ("CreationDate", "Creator", "Producer"), "png": ("Software",)}
    with matplotlib.rc_context(
        {"svg.hashsalt": name, "svg.fonttype": "none", "font.size": 9, "axes.grid": True, "grid.alpha": 0.25}
    ):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure)
        out = io.BytesIO()
        figure.savefig(out, format=format, metadata=dict.fromkeys(nothing[format]), transparent=False, dpi=200)
    return out.getvalue()


def series(run: Trajectory, x: str, y: str) -> tuple[list[float], list[float]]:
    """Two quantities at the steps where both were measured."""
    first, second = run.measured(x, y)
    return first.tolist(), second.tolist()
