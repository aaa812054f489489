"""What carries the coupling: how the variation of sharpness divides among margin tail, Jacobian and the rest."""

import math
from collections.abc import Sequence

import numpy as np

from surefoot.runs.trajectory import Trajectory
from surefoot.studies.correlation import FEWEST, pearson
from surefoot.table import Cell, Table

PHASES = ("before", "at the edge", "interpolating")
_FLAT = 1e-12  # a variance of log sharpness below which nothing varies
_COLUMNS = ("optimizer", "lr", "phase", "spacing", "steps", "r(ECE, sharpness)", "Q", "C_J^2", "the rest", "leads")


def phases(run: Trajectory) -> dict[str, Trajectory]:
    """The observations before the edge of stability (GD: 0.9 of 2/lr), at it, and after interpolation."""
    edge = 0.9 * 2 / run.lr if run.optimizer == "gd" else math.inf
    at_edge = run.steps[run["train/certified_sharpness"] >= edge]
    reached = float(at_edge[0]) if len(at_edge) else math.inf
    interpolating = run.steps >= (math.inf if run.interpolated is None else run.interpolated)
    before = ~interpolating & (run.steps < reached)
    masks = (before, ~interpolating & ~before, interpolating)
    return {name: run.part(mask) for name, mask in zip(PHASES, masks, strict=True)}


def in_phase(run: Trajectory, phase: str, spacing: str) -> Trajectory:
    """The observations of one phase: all of them, or those on the run's grid of equally spaced steps."""
    part = phases(run)[phase]
    return part.window("equal") if spacing == "equal" else part


def shares(run: Trajectory) -> dict[str, float] | None:
    """How the variation of log sharpness divides among log Q, log C_J^2 and the rest; they add up to 1. None if flat.

    The share of a part is its covariance with log sharpness over the latter's variance, over the observations that
    have all three.
    """
    sharpness, moment, c_j = run.measured("train/certified_sharpness", "train/log_margin_moment", "train/c_j")
    where = (sharpness > 0) & (c_j > 0)
    if np.count_nonzero(where) < FEWEST:
        return None
    total = [math.log(value) for value in sharpness[where]]
    parts = {"Q": moment[where].tolist(), "C_J^2": [2 * math.log(value) for value in c_j[where]]}
    parts["the rest"] = [t - q - c for t, q, c in zip(total, parts["Q"], parts["C_J^2"], strict=True)]
    variance = _covariance(total, total)
    if variance < _FLAT:
        return None
    return {name: _covariance(part, total) / variance for name, part in parts.items()}


def leader(run: Trajectory) -> str | None:
    """The part with the largest share; None where shares are not known."""
    divided = shares(run)
    return None if divided is None else max(divided, key=lambda name: divided[name])


def carriers(runs: Sequence[Trajectory]) -> Table:
    """The table of shares, by run, phase and spacing of the steps."""
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        for phase in PHASES:
            for spacing in ("all", "equal"):
                part = in_phase(run, phase, spacing)
                divided = shares(part)
                if divided is None:
                    continue
                r = pearson(part, "train/ece", "train/certified_sharpness")
                rows.append((run.spec.variant, run.lr, phase, spacing, len(part), r, *divided.values(), leader(part)))
    return Table(
        name="carriers",
        title="What the variation of log sharpness along training is due to, by phase",
        columns=_COLUMNS,
        rows=tuple(rows),
        notes=(
            "Shares of the variance of log sharpness; they add up to 1, and one can be negative where it works against "
            f"the others. Phases of fewer than {FEWEST} observed steps are left out. The edge: 0.9 of 2/lr, for GD. "
            "Spacing: all observed steps, many of them early and log-spaced, or the equally spaced ones alone.",
        ),
    )


def _covariance(first: Sequence[float], second: Sequence[float]) -> float:
    a, b = sum(first) / len(first), sum(second) / len(second)
    return sum((x - a) * (y - b) for x, y in zip(first, second, strict=True)) / len(first)
