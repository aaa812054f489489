"""Does SAM's climb do what is proved of it, under assumptions that are met?"""

from collections.abc import Iterable, Sequence
from typing import Any

from surefoot.runs.spec import RunSpec
from surefoot.runs.store import Row
from surefoot.studies.correlation import Trajectory
from surefoot.studies.needs import need_observers
from surefoot.table import Cell, Estimate, Table

STATEMENTS = {
    "sam_lemma": "Lemma 2: p~ <= exp(-rho ||g|| / 2) p, by kappa_min",
    "sam_lemma_along_gradient": "the same, by the curvature along the gradient",
    "sam_theorem": "Theorem 2: L~ >= L - lambda H(p) + H(p~)",
    "sam_weight_bound": "lambda >= lambda_0",
    "sam_calibrated_theorem": "Theorem 3, for CSAM's loss",
}


def check(spec: RunSpec) -> None:
    """Raise ValueError unless a run of this spec measures what the study shows."""
    need_observers(spec, "sam_theory")


def outcome(runs: Iterable[Trajectory], *, compare_with_paper: bool) -> dict[str, Any]:
    """How often each statement holds along training, the curvature on the path, and the claims."""
    found = [run for run in runs if run.rows]
    return {
        "figures": "sam_theory",
        "cells": [],
        "tables": [_verdicts(found), _path(found)],
        "claims": _claims(found),
        "curves": [],
    }


def _counted(rows: Sequence[Row], key: str) -> tuple[int, int, int]:
    codes = [row[f"train/{key}"] for row in rows]
    return codes.count(1), codes.count(0), codes.count(-1)


def _verdicts(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        for key, name in STATEMENTS.items():
            rows.append((run.spec.variant, run.lr, run.spec.seed, name, *_counted(run.rows, key)))
    return Table(
        name="verdicts",
        title="Observed steps at which each statement holds, its assumption is not met, or it fails",
        columns=("optimizer", "lr", "seed", "statement", "holds", "assumption not met", "fails"),
        rows=tuple(rows),
    )


def _path(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        above = [_ratio(row, "sam_kappa_min") for row in run.rows]
        along = [_ratio(row, "sam_directional") for row in run.rows]
        weights = [row["train/sam_lambda"] or 0 for row in run.rows]
        slack = [
            (row["train/sam_lambda"] or 0) / (row["train/sam_lambda_0"] or 1)
            for row in run.rows
            if row["train/sam_lambda_0"]
        ]
        rise = [(row["train/sam_rise"] or 0) / (row["train/sam_half_rise"] or 1) for row in run.rows]
        rows.append(
            (
                run.spec.variant,
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


def _ratio(row: Row, key: str) -> float:
    """How much of the allowed negative curvature is used up; 1 is the limit."""
    return (row[f"train/{key}"] or 0) / (row["train/sam_threshold"] or -1)


def _claims(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in dict.fromkeys(run.spec.variant for run in runs):
        part = [row for run in runs if run.spec.variant == name for row in run.rows]
        inside = sum(_ratio(row, "sam_kappa_min") <= 1 for row in part)
        rows.append(
            (
                f"kappa_min stays above -||g|| / rho on the path, under {name}",
                f"at {inside} of {len(part)} steps",
                "holds" if inside == len(part) else "does not hold",
            )
        )
    for key, name in STATEMENTS.items():
        met, unmet, failed = _counted([row for run in runs for row in run.rows], key)
        rows.append(
            (
                f"{name}, wherever its assumption is met",
                f"{met} of {met + failed} steps; assumption not met at {unmet}",
                "does not hold" if failed else "holds" if met else "cannot tell: the assumption is never met",
            )
        )
    return Table(
        name="claims",
        title="What the paper (Towards Understanding the Calibration Benefits of SAM) says, and what these runs say",
        columns=("claim", "measured", "verdict"),
        rows=tuple(rows),
    )
