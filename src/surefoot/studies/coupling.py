"""Do calibration error and curvature rise and fall together? The tables and claims of the coupling study."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import product
from statistics import median
from typing import Any

from surefoot.runs.spec import RunSpec
from surefoot.studies.correlation import FEWEST, Correlation, Pair, Trajectory, correlation, pearson, t_interval
from surefoot.table import Cell, Estimate, Table

# Table 1 of the paper (CIFAR-10, 5,000 images, MLP): mean and deviation over four learning rates.
PAPER = {
    ("train", "ece"): {"gd": (0.83, 0.08), "sgd": (0.84, 0.07), "adamw": (0.72, 0.07)},
    ("train", "kce"): {"gd": (0.83, 0.08), "sgd": (0.84, 0.07), "adamw": (0.70, 0.08)},
    ("test", "ece"): {"gd": (0.96, 0.02), "sgd": (0.97, 0.01), "adamw": (0.15, 0.15)},
    ("test", "kce"): {"gd": (0.97, 0.01), "sgd": (0.97, 0.01), "adamw": (0.21, 0.22)},
}
ORDER = ("gd", "sgd", "adamw")
PAIRS: tuple[Pair, ...] = (
    ("train", "ece", "train"),
    ("train", "kce", "train"),
    ("test", "ece", "test"),
    ("test", "kce", "test"),
    ("test", "ece", "train"),
    ("test", "kce", "train"),
)
SPACING = {"equal": "equally spaced", "log": "log-spaced"}
WINDOWS = ("whole", "before", "after", "first 25 %", "first 50 %", "first 75 %")

Cells = dict[tuple[str, Pair, str, str], Correlation]  # by optimizer, pair, sampling, window


def check(spec: RunSpec) -> None:
    """Raise ValueError unless a run of this spec measures what the study correlates."""
    for name in ("calibration", "margins", "curvature"):
        if name not in spec.observers:
            raise ValueError(f"The coupling study needs the observer {name}, and {spec.label} does without it.")
    if "lr" not in spec.optimizer.options:
        raise ValueError(f"The coupling study compares learning rates, and {spec.label} names no `lr`.")


def outcome(runs: Iterable[Trajectory], *, compare_with_paper: bool) -> dict[str, Any]:
    """All cells, tables, claims and curves of the study.

    `compare_with_paper` puts the paper's Table 1 beside, which makes sense on its own data only.
    """
    found = [run for run in runs if run.rows]
    names = {run.optimizer for run in found}
    optimizers = [name for name in ORDER if name in names] + sorted(names - set(ORDER))
    cells: Cells = {
        (optimizer, pair, sampling, window): correlation(found, optimizer, pair, sampling=sampling, window=window)
        for optimizer, pair, sampling, window in product(optimizers, PAIRS, SPACING, WINDOWS)
    }
    tables = [
        _table_one(cells, optimizers, sampling="equal", compare=compare_with_paper),
        *([_nearest(cells, optimizers)] if compare_with_paper else []),
        _table_one(cells, optimizers, sampling="log", compare=False),
        _windows(cells, optimizers),
        _peaks(found, optimizers),
    ]
    return {
        "cells": [asdict(item) for item in cells.values()],
        "tables": tables,
        "claims": _claims(cells, found, optimizers),
        "curves": [_by_end_step(run) for run in found],
    }


def _claims(cells: Cells, runs: Sequence[Trajectory], optimizers: Sequence[str]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for pair in PAIRS:
        split, error, sharpness = pair
        for optimizer in optimizers if error == "ece" else ():
            one = cells[optimizer, pair, "equal", "whole"]
            interval = t_interval(list(one.by_lr.values()))
            shown = "" if interval is None else f", 95 % [{interval[0]:.2f}, {interval[1]:.2f}]"
            statement = f"{split} ECE goes along with the {sharpness} set's GN sharpness under {optimizer}"
            rows.append((statement, f"r = {one.estimate}{shown}", verdict(interval)))
    whole = {key[:2]: item.mean for key, item in cells.items() if key[2:] == ("equal", "whole")}
    gaps = []
    for name, split in product(optimizers, ("train", "test")):
        first, second = (whole[name, (split, error, split)] for error in ("ece", "kce"))
        if first is not None and second is not None:
            gaps.append(abs(first - second))
    rows.append(
        (
            "KCE gives the same correlations as ECE, so they are no artefact of bins",
            f"largest difference of r {max(gaps):.2f} over {len(gaps)} cells" if gaps else "no cells",
            "cannot tell at this scale" if not gaps else "holds" if max(gaps) <= 0.1 else "does not hold",
        )
    )
    reached = [run for run in runs if run.interpolated is not None]
    humps = sum(_rises_and_falls(run, "train/ece") and _rises_and_falls(run, "train/ggn_sharpness") for run in reached)
    rows.append(
        (
            "training ECE and sharpness start small, rise and fall again",
            f"{humps} of the {len(reached)} runs that reached interpolation, of {len(runs)} in all",
            "cannot tell at this scale" if not reached else "holds" if humps == len(reached) else "does not hold",
        )
    )
    return Table(
        name="claims",
        title="What the paper says, and what these runs say",
        columns=("claim", "measured", "verdict"),
        rows=tuple(rows),
        notes=(
            "A correlation holds where the t-interval over learning rates lies above 0, does not hold where it lies "
            "below, and cannot be told where it contains 0. Small and fallen: under half the peak.",
        ),
    )


def verdict(interval: tuple[float, float] | None) -> str:
    """What an interval of a correlation says about the claim that it is positive."""
    if interval is None or interval[0] <= 0 <= interval[1]:
        return "cannot tell at this scale"
    return "holds" if interval[0] > 0 else "does not hold"


def _table_one(cells: Cells, optimizers: Sequence[str], *, sampling: str, compare: bool) -> Table:
    columns = ["calibration error", "GN sharpness of"]
    for optimizer in optimizers:
        columns += [optimizer, f"{optimizer}, paper"] if compare else [optimizer]
    rows = []
    for pair in PAIRS:
        split, error, sharpness = pair
        row: list[Cell] = [f"{split} {error.upper()}", f"{sharpness} set"]
        for optimizer in optimizers:
            row.append(cells[optimizer, pair, sampling, "whole"].estimate)
            if compare:
                row.append(_paper_cell(split, error, optimizer))
        rows.append(tuple(row))
    return Table(
        name="correlation" if sampling == "equal" else "correlation-log-spaced",
        title=f"Pearson r of calibration error with Gauss-Newton sharpness, {SPACING[sampling]} steps, whole run",
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
            ours = [c for c in cells.values() if (c.optimizer, c.split, c.error) == (optimizer, split, error)]
            known = [(abs(c.mean - wanted), c) for c in ours if c.mean is not None and c.n > 1]
            if known:
                best = min(known, key=lambda item: item[0])[1]
                setting = f"{best.sharpness}-set sharpness, {SPACING[best.sampling]}, {best.window}"
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
    for optimizer, pair in product(optimizers, PAIRS):
        split, error, sharpness = pair
        if error == "ece":
            inside = [cells[optimizer, pair, "equal", window].estimate for window in WINDOWS]
            rows.append((optimizer, f"{split} ECE", f"{sharpness} set", *inside))
    return Table(
        name="windows",
        title="The same r inside windows of the run: before and after interpolation, and up to an earlier end",
        columns=("optimizer", "calibration error", "GN sharpness of", *WINDOWS),
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
                    Estimate.of(value for _, value in ece),
                    int(median(step for step, _ in ece)),
                    Estimate.of(value for _, value in sharp),
                    int(median(step for step, _ in sharp)),
                    None if optimizer == "adamw" else 2 / lr,
                    int(median(reached)) if reached else None,
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
            "its step",
            "peak GN sharpness",
            "step of that",
            "2/lr",
            "interpolated at",
            "final test ECE",
            "final test accuracy",
        ),
        rows=tuple(rows),
        notes=("n seeds; steps are medians over seeds. 2/lr is where GD turns unstable; AdamW has no such line.",),
    )


def _rises_and_falls(run: Trajectory, key: str) -> bool:
    _, peak = run.peak(key)
    return (run.rows[0][key] or 0) < peak / 2 and (run.rows[-1][key] or 0) < peak / 2


def _by_end_step(run: Trajectory) -> dict[str, Any]:
    """Correlation over equally spaced steps from the start to each possible end."""
    rows = run.chosen("equal", "whole")
    ends = range(FEWEST, len(rows) + 1)
    curves = {
        f"{split} ECE, {sharpness}-set sharpness": [
            pearson(rows[:end], f"{split}/{error}", f"{sharpness}/ggn_sharpness") for end in ends
        ]
        for split, error, sharpness in PAIRS
        if error == "ece"
    }
    steps = [rows[end - 1]["step"] for end in ends]
    return {"optimizer": run.optimizer, "lr": run.lr, "seed": run.spec.seed, "steps": steps, "r": curves}
