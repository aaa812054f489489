"""Do the bounds hold along training, how tight are they, are their constants bounded, and what carries the coupling?"""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from surefoot.runs.spec import RunSpec
from surefoot.runs.store import Row
from surefoot.studies.carriers import PHASES, carriers, evenly, leader, phases, shares
from surefoot.studies.constants import architectures, constants, growth, spread, widths_of
from surefoot.studies.correlation import Trajectory, pearson
from surefoot.studies.needs import need_observers
from surefoot.studies.proxies import proxies, rank_correlations
from surefoot.table import Cell, Estimate, Table

BOUNDS = {  # quantity of the bound -> what it bounds, and its name for people
    "bound_ece": ("certified_ece", "ECE <= (K - 1) Q (4.1)"),
    "bound_ece_ours": ("certified_ece", "ECE <= mean (1 - p_y) (ours)"),
    "bound_sharpness": ("certified_sharpness", "sharpness <= 2 C_J^2 (K - 1) Q (4.1)"),
    "bound_sharpness_free": ("certified_sharpness", "the same, label-free (B.6)"),
    "bound_sharpness_ours": ("certified_sharpness", "sharpness <= mean sharpness of one sample (ours)"),
}
FEWEST_RUNS = 2  # below which a claim about runs is not judged
COUPLED = 0.5  # the r from which on we call two quantities coupled
ORDERED = 0.9  # and the rank r from which on one may stand for the other
GROWTH = 2.0  # a constant that grows by more than this factor is not bounded


def check(spec: RunSpec) -> None:
    """Raise ValueError unless a run of this spec measures what the study shows."""
    need_observers(spec, "certificates", "margins", "calibration", "curvature")


def outcome(runs: Iterable[Trajectory], *, compare_with_paper: bool) -> dict[str, Any]:
    """Slacks, constants, shares and claims; runs with other widths than the first are there for the constants."""
    found = [run for run in runs if run.rows]
    common = widths_of(found[0]) if found else ()
    along = [run for run in found if widths_of(run) == common]
    tables = (_slacks(along), constants(along), architectures(found), carriers(along), _deciles(along), proxies(along))
    return {
        "figures": "certificates",
        "cells": [],
        "tables": [table for table in tables if table is not None],
        "claims": _claims(found, along),
        "curves": [],
    }


def _part(run: Trajectory, phase: str, spacing: str) -> list[Row]:
    rows = phases(run)[phase]
    return evenly(run, rows) if spacing == "equal" else rows


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


def _claims(runs: Sequence[Trajectory], along: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    failed = sum(
        int(row.get(f"{split}/{key}") or 0)
        for run in runs
        for row in run.rows
        for split in ("train", "test")
        for key in ("failed", "robust_failed")
    )
    steps = sum(2 * len(run.rows) for run in runs)
    met = sum(
        (row.get(f"{split}/interpolating") or 0) > 0 for run in runs for row in run.rows for split in ("train", "test")
    )
    rows.append(
        (
            "no bound fails at any observed step",
            f"{failed} failures in {steps} evaluations; 4.2, which needs interpolation, could be judged in {met}",
            _said(failed == 0, bool(steps)),
        )
    )
    grown = [factor for run in runs if (factor := growth(run)) is not None]
    told = f"C_J grows up to {max(grown):.3g}-fold, median {median(grown):.3g}" if grown else "-"
    rows.append(("C_J stays bounded along training", told, _said(bool(grown) and max(grown) <= GROWTH, bool(grown))))
    for what in ("depth", "width"):
        ratio = spread(runs, what)
        shown = "-" if ratio is None else f"up to {ratio:.3g}-fold at initialisation between networks of other {what}"
        rows.append(
            (
                f"C_J does not depend on {what} (beyond a factor {GROWTH:g})",
                shown,
                _said(ratio is not None and ratio <= GROWTH, ratio is not None),
            )
        )
    for phase in PHASES:
        for spacing, told in (("all", "all observed steps"), ("equal", "equally spaced steps")):
            parts = [_part(run, phase, spacing) for run in along]
            found = [part["Q"] for rows_ in parts if (part := shares(rows_)) is not None]
            leading = sum(leader(rows_) == "Q" for rows_ in parts)
            rows.append(
                (
                    f"the margin tail Q is the leading term of sharpness: {phase}, {told}",
                    f"in {leading} of {len(found)} runs; its share {Estimate.of(found)}" if found else "-",
                    _said(leading == len(found), len(found) >= FEWEST_RUNS),
                )
            )
    for spacing, told in (("all", "all observed steps"), ("equal", "equally spaced steps")):
        others = [rows_ for run in along for phase in PHASES if leader(rows_ := _part(run, phase, spacing)) != "Q"]
        elsewhere = [
            r for rows_ in others if (r := pearson(rows_, "train/ece", "train/certified_sharpness")) is not None
        ]
        coupled = sum(r >= COUPLED for r in elsewhere)
        rows.append(
            (
                f"ECE and sharpness stay coupled (r >= {COUPLED}) where Q is not the leading term, {told}",
                f"in {coupled} of {len(elsewhere)} phases; r {Estimate.of(elsewhere)}" if elsewhere else "-",
                _said(coupled == len(elsewhere), len(elsewhere) >= FEWEST_RUNS),
            )
        )
    ranks = rank_correlations(along)
    rows.append(
        (
            f"the cheap estimates keep the order along training (rank r >= {ORDERED})",
            f"in {sum(r >= ORDERED for r in ranks)} of {len(ranks)} cases, the least {min(ranks):.2f}"
            if ranks
            else "-",
            _said(all(r >= ORDERED for r in ranks), bool(ranks)),
        )
    )
    return Table(
        name="claims",
        title="What the theory and its review ask, and what these runs say",
        columns=("claim", "measured", "verdict"),
        rows=tuple(rows),
        notes=(
            f"Bounded and independent: within a factor {GROWTH:g}, our choice. Leading: the largest share "
            "of the variance of log sharpness.",
        ),
    )


def _said(holds: bool, known: bool) -> str:
    return "cannot tell at this scale" if not known else "holds" if holds else "does not hold"
