"""Does SAM's climb do what is proved of it, under assumptions that are met?"""

from collections.abc import Iterable, Sequence
from typing import Any

from surefoot.runs.spec import RunSpec
from surefoot.studies.analysis import need_observers
from surefoot.studies.correlation import Trajectory
from surefoot.table import Cell, Estimate, Table
from surefoot_papers.sam_calibration.theory._claims import STATEMENTS, claims, counted, ratio


def check(spec: RunSpec) -> None:
    """Raise ValueError unless a run of this spec measures what the study shows."""
    need_observers(spec, "sam_theory")


def outcome(runs: Iterable[Trajectory]) -> dict[str, Any]:
    """How often each statement holds along training, the curvature on the path, and the claims."""
    found = [run for run in runs if run.rows]
    return {
        "figures": "sam_theory",
        "cells": [],
        "tables": [_verdicts(found), _path(found)],
        "claims": claims(found),
        "curves": [],
    }


def _verdicts(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        for key, name in STATEMENTS.items():
            rows.append((_name(run), run.lr, run.spec.seed, name, *counted(run.rows, key)))
    return Table(
        name="verdicts",
        title="Observed steps at which each statement holds, its assumption is not met, or it fails",
        columns=("optimizer", "lr", "seed", "statement", "holds", "assumption not met", "fails"),
        rows=tuple(rows),
    )


def _name(run: Trajectory) -> str:
    return f"{run.spec.variant}, one sample" if run.spec.batch_size == 1 else run.spec.variant


def _path(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        above = [ratio(row, "sam_kappa_min") for row in run.rows]
        along = [ratio(row, "sam_directional") for row in run.rows]
        weights = [row["train/sam_lambda"] or 0 for row in run.rows]
        slack = [
            (row["train/sam_lambda"] or 0) / (row["train/sam_lambda_0"] or 1)
            for row in run.rows
            if row["train/sam_lambda_0"]
        ]
        rise = [(row["train/sam_rise"] or 0) / (row["train/sam_half_rise"] or 1) for row in run.rows]
        rows.append(
            (
                _name(run),
                run.lr,
                run.spec.seed,
                *(Estimate.of(values) for values in (above, along)),
                max(above),
                Estimate.of(weights),
                Estimate.of(slack),
                Estimate.of(rise),
            )
        )
    return Table(
        name="path",
        title="Curvature on the path from theta to theta~, and what the climb does",
        columns=(
            "optimizer",
            "lr",
            "seed",
            "-kappa_min rho / ||g||",
            "the same along the gradient",
            "its largest",
            "lambda",
            "lambda / lambda_0",
            "rise of the loss / (rho ||g|| / 2)",
        ),
        rows=tuple(rows),
        notes=(
            "Mean ± deviation over the n observed steps, which are not independent. The lemma's assumption is that the "
            "first of these numbers is at most 1.",
        ),
    )
