"""The constants of the bounds, along training and against depth and width."""

import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from surefoot.runs.trajectory import Column, Trajectory
from surefoot.table import Cell, Estimate, Table

Widths = tuple[int, ...]


def widths_of(run: Trajectory) -> Widths:
    """The sizes of a run's hidden layers."""
    return tuple(run.spec.model.options.get("widths", ()))


def measured(value: float) -> float | None:
    """A number as a cell; None where it was not measured."""
    return value if math.isfinite(value) else None


def constants(runs: Sequence[Trajectory]) -> Table:
    """C_J, L_m and the tail along each run."""
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        c_j, slope, worst = "train/c_j", "train/margin_lipschitz", "train/tail_share_10"
        moment = run["train/log_margin_moment"]
        numbers = (
            run.first(c_j),
            _largest(run[c_j]),
            run.last(c_j),
            run.first(slope),
            run.last(slope),
            -_largest(-moment),
            _largest(moment),
            run.first(worst),
            run.last(worst),
        )
        rows.append((run.spec.variant, run.lr, *map(measured, numbers), run.interpolated))
    return Table(
        name="constants",
        title="The constants of the bounds on the training set",
        columns=(
            *("optimizer", "lr", "C_J first", "C_J largest", "C_J last", "L_m first", "L_m last"),
            *("log Q smallest", "log Q largest", "worst 10 %'s share of Q, first", "last", "interpolating from step"),
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
        last = min(int(run.steps[-1]) for run in own)
        for widths in shapes:
            group = [run.part(run.steps <= last) for run in own if widths_of(run) == widths]
            cells = [Estimate.of_measured(pick(run[key]) for run in group) for key, pick in _SHOWN]
            rows.append((optimizer, len(widths), widths[0] if widths else 0, *cells, last, len(group)))
    return Table(
        name="architectures",
        title="C_J and L_m by depth and width",
        columns=(
            *("optimizer", "hidden layers", "width", "C_J first", "C_J largest", "C_J last"),
            *("L_m first", "L_m last", "up to step", "runs"),
        ),
        rows=tuple(rows),
        notes=("Mean over learning rates and seeds. PyTorch's own initialisation.",),
    )


def _first(values: Column) -> float:
    return float(values[0])


def _last(values: Column) -> float:
    return float(values[-1])


def _largest(values: Column) -> float:
    return float(np.nanmax(values)) if np.isfinite(values).any() else math.nan


_SHOWN: tuple[tuple[str, Callable[[Column], float]], ...] = (
    ("train/c_j", _first),
    ("train/c_j", _largest),
    ("train/c_j", _last),
    ("train/margin_lipschitz", _first),
    ("train/margin_lipschitz", _last),
)


def growth(run: Trajectory) -> float | None:
    """The largest C_J along a run over the first; None where the first was not measured or is 0."""
    first = run.first("train/c_j")
    return _largest(run["train/c_j"]) / first if first > 0 else None


def initial_constants(runs: Sequence[Trajectory]) -> dict[Widths, float]:
    """The mean C_J at initialisation of every shape of network whose layers are equally wide."""
    by_shape: dict[Widths, list[float]] = {}
    for run in runs:
        widths = widths_of(run)
        if len(set(widths)) == 1 and math.isfinite(run.first("train/c_j")):
            by_shape.setdefault(widths, []).append(run.first("train/c_j"))
    return {widths: sum(values) / len(values) for widths, values in by_shape.items()}


def spread(runs: Sequence[Trajectory], what: Literal["depth", "width"]) -> float | None:
    """The largest ratio of C_J at initialisation between networks that differ in depth alone, or in width alone."""
    groups: dict[int, list[float]] = {}
    for widths, value in initial_constants(runs).items():
        groups.setdefault(widths[0] if what == "depth" else len(widths), []).append(value)
    ratios = [max(group) / min(group) for group in groups.values() if len(group) > 1 and min(group) > 0]
    return max(ratios, default=None)
