"""The constants of the bounds, along training and against depth and width."""

from collections.abc import Callable, Sequence
from typing import Literal

from surefoot.studies.correlation import Trajectory
from surefoot.table import Cell, Estimate, Table

Widths = tuple[int, ...]


def widths_of(run: Trajectory) -> Widths:
    """The sizes of a run's hidden layers."""
    return tuple(run.spec.model.options.get("widths", ()))


def constants(runs: Sequence[Trajectory]) -> Table:
    """C_J, L_m and the tail along each run."""
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        c_j, slope, moment, worst = (
            [row.get(f"train/{key}") for row in run.rows]
            for key in ("c_j", "margin_lipschitz", "log_margin_moment", "tail_share_10")
        )
        known = [value for value in c_j if value is not None]
        moments = [value for value in moment if value is not None]
        rows.append(
            (
                run.spec.variant,
                run.lr,
                c_j[0],
                max(known, default=None),
                c_j[-1],
                slope[0],
                slope[-1],
                min(moments, default=None),
                max(moments, default=None),
                worst[0],
                worst[-1],
                run.interpolated,
            )
        )
    return Table(
        name="constants",
        title="The constants of the bounds on the training set (K = 10)",
        columns=(
            "optimizer",
            "lr",
            "C_J first",
            "C_J largest",
            "C_J last",
            "L_m first",
            "L_m last",
            "log Q smallest",
            "log Q largest",
            "worst 10 %'s share of Q, first",
            "last",
            "interpolating from step",
        ),
        rows=tuple(rows),
        notes=("L_m: an upper bound, from the weights, of how fast a margin changes with the input (l2).",),
    )


def architectures(runs: Sequence[Trajectory]) -> Table:
    """C_J and L_m by depth and width, over the steps that an optimizer's runs of all shapes have in common."""
    rows: list[tuple[Cell, ...]] = []
    for optimizer in sorted({run.optimizer for run in runs}):
        own = [run for run in runs if run.optimizer == optimizer]
        shapes = sorted({widths_of(run) for run in own}, key=lambda widths: (len(widths), widths))
        if len(shapes) < 2:
            continue
        last = min(run.rows[-1]["step"] or 0 for run in own)
        for widths in shapes:
            group = [run for run in own if widths_of(run) == widths]
            seen = [[row for row in run.rows if (row["step"] or 0) <= last] for run in group]
            cells = [
                Estimate.of([pick([row.get(key) or 0.0 for row in part]) for part in seen]) for key, pick in _SHOWN
            ]
            rows.append((optimizer, len(widths), widths[0] if widths else 0, *cells, int(last), len(group)))
    return Table(
        name="architectures",
        title="C_J and L_m by depth and width",
        columns=(
            "optimizer",
            "hidden layers",
            "width",
            "C_J first",
            "C_J largest",
            "C_J last",
            "L_m first",
            "L_m last",
            "up to step",
            "runs",
        ),
        rows=tuple(rows),
        notes=("Mean over learning rates and seeds. PyTorch's own initialisation.",),
    )


def _first(values: Sequence[float]) -> float:
    return values[0]


def _last(values: Sequence[float]) -> float:
    return values[-1]


_SHOWN: tuple[tuple[str, Callable[[Sequence[float]], float]], ...] = (
    ("train/c_j", _first),
    ("train/c_j", max),
    ("train/c_j", _last),
    ("train/margin_lipschitz", _first),
    ("train/margin_lipschitz", _last),
)


def growth(run: Trajectory) -> float | None:
    """The largest C_J along a run over the first."""
    values = [row["train/c_j"] or 0.0 for row in run.rows]
    return max(values) / values[0] if values[0] > 0 else None


def spread(runs: Sequence[Trajectory], what: Literal["depth", "width"]) -> float | None:
    """The largest ratio of C_J at initialisation between networks that differ in depth alone, or in width alone."""
    by_shape: dict[Widths, list[float]] = {}
    for run in runs:
        by_shape.setdefault(widths_of(run), []).append(run.rows[0]["train/c_j"] or 0.0)
    groups: dict[int, list[float]] = {}
    for widths, values in by_shape.items():
        if widths and len(set(widths)) == 1:
            same = widths[0] if what == "depth" else len(widths)
            groups.setdefault(same, []).append(sum(values) / len(values))
    ratios = [max(group) / min(group) for group in groups.values() if len(group) > 1 and min(group) > 0]
    return max(ratios, default=None)
