"""Do calibration error and curvature rise and fall together? The tables of the coupling study."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import product
from statistics import median
from typing import Any

from surefoot.runs.spec import RunSpec
from surefoot.studies.analysis import need_observers
from surefoot.studies.correlation import (
    FEWEST,
    NAMES,
    PAIRS,
    SHARPNESSES,
    SPACING,
    Cells,
    Pair,
    Trajectory,
    correlation,
    pearson,
)
from surefoot.table import Cell, Estimate, Table
from surefoot_papers.too_sharp.coupling.between_runs import between_runs
from surefoot_papers.too_sharp.coupling.claims import coupling_claims

# Table 1 of the paper (CIFAR-10, 5,000 images, MLP): mean and deviation over four learning rates.
PAPER = {
    ("train", "ece"): {
        "gd": (0.83, 0.08),
        "sgd": (0.84, 0.07),
        "adamw": (0.72, 0.07),
        "muon": (0.63, 0.26),
        "sam": (0.92, 0.04),
    },
    ("train", "kce"): {
        "gd": (0.83, 0.08),
        "sgd": (0.84, 0.07),
        "adamw": (0.70, 0.08),
        "muon": (0.61, 0.28),
        "sam": (0.91, 0.04),
    },
    ("test", "ece"): {
        "gd": (0.96, 0.02),
        "sgd": (0.97, 0.01),
        "adamw": (0.15, 0.15),
        "muon": (-0.10, 0.28),
        "sam": (0.98, 0.01),
    },
    ("test", "kce"): {
        "gd": (0.97, 0.01),
        "sgd": (0.97, 0.01),
        "adamw": (0.21, 0.22),
        "muon": (-0.16, 0.31),
        "sam": (0.98, 0.01),
    },
}
PAPERS_OWN = ("cifar10", "cifar10-5k")  # the data that the paper's table is of
ORDER = ("gd", "sgd", "adamw", "muon", "sam", "bulk_sgd")
WINDOWS = ("whole", "before", "after", "first 25 %", "first 50 %", "first 75 %")


def check(spec: RunSpec) -> None:
    """Raise ValueError unless a run of this spec measures what the study correlates."""
    need_observers(spec, "calibration", "margins", "curvature")
    if "lr" not in spec.optimizer.options:
        raise ValueError(f"The coupling study compares learning rates, and {spec.label} names no `lr`.")


def outcome(runs: Iterable[Trajectory]) -> dict[str, Any]:
    """All cells, tables, claims and curves of the study; the paper's Table 1 beside where the runs are on its data."""
    found = [run for run in runs if run.rows]
    compare_with_paper = bool(found) and all(run.spec.data.name in PAPERS_OWN for run in found)
    names = {run.optimizer for run in found}
    optimizers = [name for name in ORDER if name in names] + sorted(names - set(ORDER))
    pairs = _measured(found)
    cells: Cells = {
        (optimizer, pair, sampling, window): correlation(found, optimizer, pair, sampling=sampling, window=window)
        for optimizer, pair, sampling, window in product(optimizers, pairs, SPACING, WINDOWS)
    }
    tables = [
        _table_one(cells, optimizers, sampling="equal", compare=compare_with_paper),
        *([_nearest(cells, optimizers)] if compare_with_paper else []),
        _table_one(cells, optimizers, sampling="log", compare=False),
        _windows(cells, optimizers),
        _peaks(found, optimizers),
        between_runs(found, optimizers),
    ]
    return {
        "figures": "coupling",
        "cells": [asdict(item) for item in cells.values()],
        "tables": tables,
        "claims": coupling_claims(cells, found, optimizers),
        "curves": [_by_end_step(run, pairs) for run in found],
    }


def _measured(runs: Sequence[Trajectory]) -> list[Pair]:
    """The pairs whose sharpness some run has: earlier runs had no batch sharpness."""
    return [pair for pair in PAIRS if any(SHARPNESSES[pair[2]] in row for run in runs for row in run.rows)]


def _table_one(cells: Cells, optimizers: Sequence[str], *, sampling: str, compare: bool) -> Table:
    columns = ["calibration error", "sharpness"]
    for optimizer in optimizers:
        columns += [optimizer, f"{optimizer}, paper"] if compare else [optimizer]
    rows = []
    for pair in dict.fromkeys(pair for _, pair, _, _ in cells):
        split, error, sharpness = pair
        row: list[Cell] = [f"{split} {error.upper()}", NAMES[sharpness]]
        for optimizer in optimizers:
            row.append(cells[optimizer, pair, sampling, "whole"].estimate)
            if compare:
                row.append("-" if sharpness == "batch" else _paper_cell(split, error, optimizer))
        rows.append(tuple(row))
    return Table(
        name="correlation" if sampling == "equal" else "correlation-log-spaced",
        title=f"Pearson r of calibration error with sharpness, {SPACING[sampling]} steps, whole run",
        columns=tuple(columns),
        rows=tuple(rows),
        notes=("Mean ± sample standard deviation over n learning rates, each the mean over its seeds.",),
    )


def _paper_cell(split: str, error: str, optimizer: str) -> str:
    reported = PAPER[split, error].get(optimizer)
    return "-" if reported is None else f"{reported[0]:.2f} ± {reported[1]:.2f}"


def _nearest(cells: Cells, optimizers: Sequence[str]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for (split, error), reported in PAPER.items():
        for optimizer in [name for name in optimizers if name in reported]:
            wanted = reported[optimizer][0]
            ours = [
                c
                for c in cells.values()
                if (c.optimizer, c.split, c.error) == (optimizer, split, error) and c.sharpness != "batch"
            ]
            known = [(abs(c.mean - wanted), c) for c in ours if c.mean is not None and c.n > 1]
            if known:
                best = min(known, key=lambda item: item[0])[1]
                setting = f"{NAMES[best.sharpness]}, {SPACING[best.sampling]}, {best.window}"
                what = f"{split} {error.upper()}"
                rows.append((what, optimizer, _paper_cell(split, error, optimizer), best.estimate, setting))
    return Table(
        name="nearest-to-paper",
        title="The setting here that comes nearest to each cell of the paper's Table 1",
        columns=("calibration error", "optimizer", "paper", "nearest here", "setting"),
        rows=tuple(rows),
        notes=("Picked after the fact among all settings: a hint at what the paper measured, not evidence.",),
    )


def _windows(cells: Cells, optimizers: Sequence[str]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for optimizer, pair in product(optimizers, dict.fromkeys(pair for _, pair, _, _ in cells)):
        split, error, sharpness = pair
        if error == "ece":
            inside = [cells[optimizer, pair, "equal", window].estimate for window in WINDOWS]
            rows.append((optimizer, f"{split} ECE", NAMES[sharpness], *inside))
    return Table(
        name="windows",
        title="The same r inside windows of the run: before and after interpolation, and up to an earlier end",
        columns=("optimizer", "calibration error", "sharpness", *WINDOWS),
        rows=tuple(rows),
        notes=(
            "Interpolation: the first observed step with every training sample classified right. A run that never gets "
            f"there is all before. A window needs {FEWEST} observations; n learning rates have them.",
        ),
    )


def _peaks(runs: Sequence[Trajectory], optimizers: Sequence[str]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for optimizer in optimizers:
        for lr in sorted({run.lr for run in runs if run.optimizer == optimizer}):
            group = [run for run in runs if (run.optimizer, run.lr) == (optimizer, lr)]
            ece = [run.peak("train/ece") for run in group]
            sharp = [run.peak("train/ggn_sharpness") for run in group]
            reached = [run.interpolated for run in group if run.interpolated is not None]
            rows.append(
                (
                    optimizer,
                    lr,
                    Estimate.of(row["train/ece"] or 0 for row in ece),
                    Estimate.of((row["train/confidence"] or 0) - (row["train/accuracy"] or 0) for row in ece),
                    int(median(row["step"] or 0 for row in ece)),
                    Estimate.of(row["train/ggn_sharpness"] or 0 for row in sharp),
                    int(median(row["step"] or 0 for row in sharp)),
                    2 / lr if optimizer == "gd" else None,
                    f"{int(median(reached))} ({len(reached)} of {len(group)})" if reached else None,
                    Estimate.of(run.rows[-1]["test/ece"] or 0 for run in group),
                    Estimate.of(run.rows[-1]["test/accuracy"] or 0 for run in group),
                )
            )
    return Table(
        name="peaks",
        title="Where training ECE and sharpness peak, and how the runs end",
        columns=(
            "optimizer",
            "lr",
            "peak train ECE",
            "confidence - accuracy there",
            "step of peak ECE",
            "peak GN sharpness",
            "step of peak sharpness",
            "2/lr",
            "interpolated at (runs)",
            "final test ECE",
            "final test accuracy",
        ),
        rows=tuple(rows),
        notes=(
            "n seeds; steps are medians over seeds. Above 2/lr plain GD is unstable to first order: it bounces and the "
            "sharpness falls back. Confidence below accuracy at the peak of ECE is underconfidence.",
        ),
    )


def _by_end_step(run: Trajectory, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Correlation over equally spaced steps from the start to each possible end."""
    rows = run.chosen("equal", "whole")
    ends = range(FEWEST, len(rows) + 1)
    curves = {
        f"{split} ECE, {NAMES[sharpness]}": [
            pearson(rows[:end], f"{split}/{error}", SHARPNESSES[sharpness]) for end in ends
        ]
        for split, error, sharpness in pairs
        if error == "ece"
    }
    steps = [rows[end - 1]["step"] for end in ends]
    return {"optimizer": run.optimizer, "lr": run.lr, "seed": run.spec.seed, "steps": steps, "r": curves}
