"""Do the bounds hold along training, how tight are they, are their constants bounded, and what carries the coupling?"""

import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from surefoot.runs.spec import RunSpec
from surefoot.runs.store import Row
from surefoot.studies.correlation import FEWEST, Trajectory, pearson
from surefoot.table import Cell, Estimate, Table

BOUNDS = {  # quantity of the bound -> what it bounds, and its name for people
    "bound_ece": ("certified_ece", "ECE <= (K - 1) Q (4.1)"),
    "bound_ece_ours": ("certified_ece", "ECE <= mean (1 - p_y) (ours)"),
    "bound_sharpness": ("certified_sharpness", "sharpness <= 2 C_J^2 (K - 1) Q (4.1)"),
    "bound_sharpness_free": ("certified_sharpness", "the same, label-free (B.6)"),
    "bound_sharpness_ours": ("certified_sharpness", "the same, sample by sample (ours)"),
}
LEADING = 0.5  # a part that explains less than this of log sharpness does not lead
GROWTH = 2.0  # a constant that grows by more than this factor is not bounded


def check(spec: RunSpec) -> None:
    """Raise ValueError unless a run of this spec measures what the study shows."""
    for name in ("certificates", "margins", "calibration", "curvature"):
        if name not in spec.observers:
            raise ValueError(f"The certificates study needs the observer {name}, and {spec.label} does without it.")


def outcome(runs: Iterable[Trajectory], *, compare_with_paper: bool) -> dict[str, Any]:
    """Slacks, constants, shares and claims; runs with other widths than the first are there for the constants."""
    found = [run for run in runs if run.rows]
    common = _widths(found[0]) if found else ()
    along = [run for run in found if _widths(run) == common]
    return {
        "figures": "certificates",
        "cells": [],
        "tables": [_slacks(along), _constants(along), _architectures(found), _carriers(along)],
        "claims": _claims(found, along),
        "curves": [],
    }


def phases(run: Trajectory) -> dict[str, list[Row]]:
    """The rows before the edge of stability (GD: 0.9 of 2/lr), at it, and after interpolation."""
    inside = run.interpolated
    edge = 0.9 * 2 / run.lr if run.optimizer == "gd" else math.inf
    reached = next((row["step"] or 0 for row in run.rows if (row["train/certified_sharpness"] or 0) >= edge), math.inf)
    parts: dict[str, list[Row]] = {"before": [], "at the edge": [], "interpolating": []}
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


def _covariance(first: Sequence[float], second: Sequence[float]) -> float:
    a, b = sum(first) / len(first), sum(second) / len(second)
    return sum((x - a) * (y - b) for x, y in zip(first, second, strict=True)) / len(first)


def _widths(run: Trajectory) -> tuple[int, ...]:
    return tuple(run.spec.model.options.get("widths", ()))


def _slack(row: Row, split: str, bound: str) -> float | None:
    measured, limit = row[f"{split}/{BOUNDS[bound][0]}"], row[f"{split}/{bound}"]
    return limit / measured if measured and limit else None


def _slacks(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        for split in ("train", "test"):
            failed = sum(int(row[f"{split}/failed"] or 0) for row in run.rows)
            cells: list[Cell] = []
            for bound in BOUNDS:
                known = [slack for row in run.rows if (slack := _slack(row, split, bound)) is not None]
                cells.append(f"{median(known):.3g} ({min(known):.3g} to {max(known):.3g})" if known else None)
            rows.append((run.spec.variant, run.lr, split, *cells, f"{failed} in {len(run.rows)} steps"))
    return Table(
        name="slacks",
        title="Bound over measured value along training: median (smallest to largest)",
        columns=("optimizer", "lr", "split", *(name for _, name in BOUNDS.values()), "failed"),
        rows=tuple(rows),
        notes=("1 is tight. Failed: inequalities that did not hold, summed over the observed steps.",),
    )


def _constants(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        values = [row["train/c_j"] or 0 for row in run.rows]
        moments = [row["train/log_margin_moment"] or 0 for row in run.rows]
        worst = [row["train/tail_share_10"] or 0 for row in run.rows]
        entered = None if run.interpolated is None else run.interpolated
        rows.append(
            (
                run.spec.variant,
                run.lr,
                values[0],
                max(values),
                values[-1],
                min(moments),
                max(moments),
                worst[0],
                worst[-1],
                entered,
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
            "log Q smallest",
            "log Q largest",
            "worst 10 %'s share of Q, first",
            "last",
            "interpolating from step",
        ),
        rows=tuple(rows),
    )


def _architectures(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for optimizer in sorted({run.optimizer for run in runs}):
        by_shape = sorted({_widths(run) for run in runs if run.optimizer == optimizer}, key=lambda w: (len(w), w))
        if len(by_shape) < 2:
            continue
        for widths in by_shape:
            group = [run for run in runs if (run.optimizer, _widths(run)) == (optimizer, widths)]
            first, last, largest = ([pick(run) for run in group] for pick in (_first, _last, _largest))
            rows.append(
                (
                    optimizer,
                    len(widths),
                    widths[0] if widths else 0,
                    *map(Estimate.of, (first, largest, last)),
                    len(group),
                )
            )
    return Table(
        name="architectures",
        title="C_J by depth and width",
        columns=("optimizer", "hidden layers", "width", "first", "largest", "last", "runs"),
        rows=tuple(rows),
        notes=("Over learning rates and seeds. PyTorch's own initialisation.",),
    )


def _first(run: Trajectory) -> float:
    return run.rows[0]["train/c_j"] or 0.0


def _last(run: Trajectory) -> float:
    return run.rows[-1]["train/c_j"] or 0.0


def _largest(run: Trajectory) -> float:
    return max(row["train/c_j"] or 0.0 for row in run.rows)


def _carriers(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        for phase, part in phases(run).items():
            found = shares(part)
            r = pearson(part, "train/ece", "train/certified_sharpness") if len(part) >= FEWEST else None
            if found is None:
                continue
            leads = max(found, key=lambda name: found[name])
            rows.append((run.spec.variant, run.lr, phase, len(part), r, *found.values(), leads))
    return Table(
        name="carriers",
        title="What the variation of log sharpness along training is due to, by phase",
        columns=("optimizer", "lr", "phase", "steps", "r(ECE, sharpness)", "Q", "C_J^2", "the rest", "leads"),
        rows=tuple(rows),
        notes=(
            "Shares of the variance of log sharpness; they add up to 1, and one can be negative where it works against "
            f"the others. Phases of fewer than {FEWEST} observed steps are left out. The edge: 0.9 of 2/lr, for GD.",
        ),
    )


def _claims(runs: Sequence[Trajectory], along: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    failed = sum(int(row[f"{split}/failed"] or 0) for run in runs for row in run.rows for split in ("train", "test"))
    steps = sum(2 * len(run.rows) for run in runs)
    rows.append(
        (
            "every bound holds at every observed step",
            f"{failed} failures in {steps} evaluations",
            _said(failed == 0, bool(steps)),
        )
    )
    growth = [_largest(run) / _first(run) for run in runs if _first(run) > 0]
    told = f"C_J grows up to {max(growth):.3g}-fold, median {median(growth):.3g}" if growth else "-"
    rows.append(("C_J stays bounded along training", told, _said(bool(growth) and max(growth) <= GROWTH, bool(growth))))
    for what, key in (("depth", lambda w: len(w)), ("width", lambda w: w[0] if w else 0)):
        spread = _spread(runs, key)
        shown = "-" if spread is None else f"largest over smallest C_J at initialisation {spread:.3g}"
        rows.append(
            (
                f"C_J does not depend on {what} (beyond a factor {GROWTH:g})",
                shown,
                _said(spread is not None and spread <= GROWTH, spread is not None),
            )
        )
    for phase in ("before", "at the edge", "interpolating"):
        found = [part["Q"] for run in along if (part := shares(phases(run)[phase])) is not None]
        leading = sum(share >= LEADING for share in found)
        rows.append(
            (
                f"the margin tail Q is the leading term of sharpness: {phase}",
                f"in {leading} of {len(found)} runs; its share {Estimate.of(found)}" if found else "-",
                _said(leading == len(found), bool(found)),
            )
        )
    return Table(
        name="claims",
        title="What the theory and its review ask, and what these runs say",
        columns=("claim", "measured", "verdict"),
        rows=tuple(rows),
        notes=(
            f"Bounded and independent: within a factor {GROWTH:g}, our choice. Leading: at least {LEADING:.0%} of the "
            "variance of log sharpness.",
        ),
    )


def _spread(runs: Sequence[Trajectory], key: Any) -> float | None:
    """The largest ratio of mean C_J at initialisation between groups by `key`."""
    groups: dict[int, list[float]] = {}
    for run in runs:
        groups.setdefault(key(_widths(run)), []).append(_first(run))
    means = [sum(values) / len(values) for values in groups.values()]
    return max(means) / min(means) if len(means) > 1 and min(means) > 0 else None


def _said(holds: bool, known: bool) -> str:
    return "cannot tell at this scale" if not known else "holds" if holds else "does not hold"
