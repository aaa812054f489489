"""What carries the coupling: how the variation of sharpness divides among margin tail, Jacobian and the rest."""

import math
from collections.abc import Sequence

from surefoot.runs.trajectory import Row
from surefoot.studies.correlation import FEWEST, Trajectory, pearson
from surefoot.table import Cell, Table

PHASES = ("before", "at the edge", "interpolating")


def phases(run: Trajectory) -> dict[str, list[Row]]:
    """The rows before the edge of stability (GD: 0.9 of 2/lr), at it, and after interpolation."""
    inside = run.interpolated
    edge = 0.9 * 2 / run.lr if run.optimizer == "gd" else math.inf
    reached = next((row["step"] or 0 for row in run.rows if (row["train/certified_sharpness"] or 0) >= edge), math.inf)
    parts: dict[str, list[Row]] = {name: [] for name in PHASES}
    for row in run.rows:
        step = row["step"] or 0
        name = (
            "interpolating" if inside is not None and step >= inside else "before" if step < reached else "at the edge"
        )
        parts[name].append(row)
    return parts


def shares(rows: Sequence[Row]) -> dict[str, float] | None:
    """How the variation of log sharpness divides among log Q, log C_J^2 and the rest; they add up to 1. None if flat.

    The share of a part is its covariance with log sharpness over the latter's variance.
    """
    known = [row for row in rows if (row["train/certified_sharpness"] or 0) > 0]
    if len(known) < FEWEST:
        return None
    total = [math.log(row["train/certified_sharpness"] or 1) for row in known]
    parts = {
        "Q": [row["train/log_margin_moment"] or 0.0 for row in known],
        "C_J^2": [2 * math.log(row["train/c_j"] or 1) for row in known],
    }
    parts["the rest"] = [t - q - c for t, q, c in zip(total, parts["Q"], parts["C_J^2"], strict=True)]
    variance = _covariance(total, total)
    if variance < 1e-12:
        return None
    return {name: _covariance(part, total) / variance for name, part in parts.items()}


def evenly(run: Trajectory, rows: Sequence[Row]) -> list[Row]:
    """Those of the rows that lie on the run's grid of equally spaced steps."""
    return [row for row in rows if run.spec.schedule.equally_spaced(int(row["step"] or 0))]


def leader(rows: Sequence[Row]) -> str | None:
    """The part with the largest share; None where shares are not known."""
    found = shares(rows)
    return None if found is None else max(found, key=lambda name: found[name])


def carriers(runs: Sequence[Trajectory]) -> Table:
    """The table of shares, by run, phase and spacing of the steps."""
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        for phase, whole in phases(run).items():
            for spacing, part in (("all", whole), ("equal", evenly(run, whole))):
                found = shares(part)
                if found is None:
                    continue
                r = pearson(part, "train/ece", "train/certified_sharpness")
                rows.append((run.spec.variant, run.lr, phase, spacing, len(part), r, *found.values(), leader(part)))
    return Table(
        name="carriers",
        title="What the variation of log sharpness along training is due to, by phase",
        columns=(
            "optimizer",
            "lr",
            "phase",
            "spacing",
            "steps",
            "r(ECE, sharpness)",
            "Q",
            "C_J^2",
            "the rest",
            "leads",
        ),
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
