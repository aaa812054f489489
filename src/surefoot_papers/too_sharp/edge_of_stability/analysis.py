"""Does curvature rise to 2 / lr and stay there? The table and claims of the edge-of-stability study."""

from collections.abc import Iterable, Sequence
from typing import Any

from surefoot.runs.spec import RunSpec
from surefoot.studies.analysis import need_observers
from surefoot.studies.correlation import Trajectory
from surefoot.table import Cell, Estimate, Table

NEAR = {"gd": 0.9, "sgd": 0.75}  # of 2 / lr: from here on rows count, so that there is a phase to judge
LOWEST, HIGHEST = 0.9, 1.3  # of 2 / lr: what the mean of these rows may be. Cross-entropy bounces above, not below
KINDS = {
    "largest eigenvalue of the Hessian": "train/hessian_sharpness",
    "of the Gauss-Newton matrix": "train/ggn_sharpness",
    "batch sharpness": "train/batch_sharpness",
}


def check(spec: RunSpec) -> None:
    """Raise ValueError unless a run of this spec measures what the study shows."""
    need_observers(spec, "curvature", "hessian", "batch_sharpness")
    size = spec.observers["batch_sharpness"].get("batch_size", 50)
    if spec.batch_size not in ("full", size):
        raise ValueError(f"`observers.batch_sharpness.batch_size` must be that of {spec.label}, got {size}.")
    if spec.optimizer.name not in ("gd", "sgd") or spec.optimizer.options.get("momentum"):
        raise ValueError(f"The edge-of-stability study is about GD and SGD without momentum, got {spec.label}.")


def outcome(runs: Iterable[Trajectory]) -> dict[str, Any]:
    """The table and the claims; there is no paper's table to compare with."""
    found = sorted((run for run in runs if run.rows), key=lambda run: (run.optimizer, run.lr, run.spec.seed))
    return {"figures": "stability", "cells": [], "tables": [_table(found)], "claims": _claims(found), "curves": []}


def _held_key(run: Trajectory) -> str:
    return "train/hessian_sharpness" if run.optimizer == "gd" else "train/batch_sharpness"


def _edge(run: Trajectory) -> float:
    return 2 / run.lr


def _at_the_edge(run: Trajectory) -> Sequence[dict[str, Any]]:
    """The rows from the first one near the edge on, once the first fall of curvature is over."""
    key = _held_key(run)
    values = [row.get(key) or 0 for row in run.rows]
    early = values[: (len(values) + 1) // 2]
    begun = early.index(min(early))
    near = NEAR[run.optimizer] * _edge(run)
    first = next((k for k, value in enumerate(values) if k >= begun and value >= near), None)
    return [] if first is None else [dict(row) for row in run.rows[first:]]


def _ratio(run: Trajectory, key: str) -> Estimate:
    return Estimate.of(row[key] / _edge(run) for row in _at_the_edge(run) if row.get(key) is not None)


def _table(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        there = _at_the_edge(run)
        certified = Estimate.of(float(row.get("train/hessian_certified") or 0) for row in run.rows)
        rows.append(
            (
                run.optimizer,
                run.lr,
                run.spec.batch_size,
                run.spec.seed,
                _edge(run),
                int(there[0]["step"]) if there else None,
                *(_ratio(run, key) for key in KINDS.values()),
                certified.mean,
            )
        )
    return Table(
        name="edge",
        title="Curvature in units of 2/lr, from the first time it is near the edge to the end of the run",
        columns=("optimizer", "lr", "batch", "seed", "2/lr", "near the edge at step", *KINDS, "certified"),
        rows=tuple(rows),
        notes=(
            f"Near the edge: {NEAR['gd']} of 2/lr by the Hessian's largest eigenvalue for GD, {NEAR['sgd']} by batch "
            "sharpness for SGD. "
            "Mean ± deviation over the n observed steps from there on, which are not independent. Certified: the share "
            "of the Hessian's eigenvalues proved to the observer's tolerance.",
        ),
    )


def _claims(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        what = "the Hessian's largest eigenvalue" if run.optimizer == "gd" else "batch sharpness"
        ratio = _ratio(run, _held_key(run))
        held = ratio.mean is not None and LOWEST <= ratio.mean <= HIGHEST
        statement = f"{run.optimizer} at lr {run.lr:.4g}: {what} rises to 2/lr and hovers"
        rows.append((statement, str(ratio), _verdict(ratio.mean, held)))
        if run.optimizer == "sgd":
            below = _ratio(run, "train/hessian_sharpness")
            holds = below.mean is not None and ratio.mean is not None and below.mean < ratio.mean
            statement = f"sgd at lr {run.lr:.4g}: the full-batch Hessian's largest eigenvalue stays below meanwhile"
            rows.append((statement, str(below), _verdict(below.mean, holds)))
    return Table(
        name="claims",
        title="What the literature says, and what these runs say",
        columns=("claim", "in units of 2/lr", "verdict"),
        rows=tuple(rows),
        notes=(
            f"Hovers: the mean from the first time near the edge on is {LOWEST} to {HIGHEST} times 2/lr, limits of our "
            "choice and one for both optimizers. Stays below: that mean is under batch sharpness's. n: observed steps.",
        ),
    )


def _verdict(known: float | None, holds: bool) -> str:
    return "cannot tell: the edge was not reached" if known is None else "holds" if holds else "does not hold"
