"""Do the bounds hold along training, how tight are they, are their constants bounded, and what carries the coupling?"""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Row
from surefoot.studies.analysis import need_observers
from surefoot.studies.correlation import Trajectory
from surefoot.table import Cell, Table
from surefoot_papers.too_sharp.certificates._carriers import carriers
from surefoot_papers.too_sharp.certificates._claims import certificate_claims
from surefoot_papers.too_sharp.certificates._constants import architectures, constants, widths_of
from surefoot_papers.too_sharp.certificates._proxies import proxies

BOUNDS = {  # quantity of the bound -> what it bounds, and its name for people
    "bound_ece": ("certified_ece", "ECE <= (K - 1) Q (4.1)"),
    "bound_ece_ours": ("certified_ece", "ECE <= mean (1 - p_y) (ours)"),
    "bound_sharpness": ("certified_sharpness", "sharpness <= 2 C_J^2 (K - 1) Q (4.1)"),
    "bound_sharpness_free": ("certified_sharpness", "the same, label-free (B.6)"),
    "bound_sharpness_ours": ("certified_sharpness", "sharpness <= mean sharpness of one sample (ours)"),
}


def check(spec: RunSpec) -> None:
    """Raise ValueError unless a run of this spec measures what the study shows."""
    need_observers(spec, "certificates", "margins", "calibration", "curvature")


def outcome(runs: Iterable[Trajectory]) -> dict[str, Any]:
    """Slacks, constants, shares and claims; runs with other widths than the first are there for the constants."""
    found = [run for run in runs if run.rows]
    common = widths_of(found[0]) if found else ()
    along = [run for run in found if widths_of(run) == common]
    tables = (_slacks(along), constants(along), architectures(found), carriers(along), _deciles(along), proxies(along))
    return {
        "figures": "certificates",
        "cells": [],
        "tables": [table for table in tables if table is not None],
        "claims": certificate_claims(found, along),
        "curves": [],
    }


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


def _deciles(runs: Sequence[Trajectory]) -> Table | None:
    rows: list[tuple[Cell, ...]] = []
    for run in (run for run in runs if "robust_margins" in run.spec.observers):
        for split in ("train", "test"):
            last = run.rows[-1]
            gaps = [last.get(f"{split}/ece_decile_{number:02d}") for number in range(1, 11)]
            rows.append((run.spec.variant, run.lr, split, *gaps))
    if not rows:
        return None
    return Table(
        name="deciles",
        title="|confidence - accuracy| by decile of the robust margin after the last step, least robust first",
        columns=("optimizer", "lr", "split", *(str(number) for number in range(1, 11))),
        rows=tuple(rows),
        notes=("Robust margins by an attack. Deciles by a margin that knows the label: low ones hold the errors.",),
    )
