"""How good the cheap stand-ins for the margin tail are along training."""

import math
from collections.abc import Sequence
from statistics import mean

import numpy as np

from surefoot.runs.trajectory import Row
from surefoot.studies.correlation import FEWEST, Trajectory, pearson
from surefoot.table import Cell, Table

_PAIRS = {  # name for people -> estimate, exact value, whether they are logarithms already
    "log Q, from a mini-batch": ("proxy_batch_log_moment", "log_margin_moment", True),
    "2 C_J^2 (K - 1) Q, from a mini-batch": ("proxy_batch_bound_sharpness", "bound_sharpness", False),
    "mean sharpness of one sample, low rank": ("proxy_low_rank_sharpness", "bound_sharpness_ours", False),
    "log Q0, by input gradients": ("proxy_robust_log_moment", "log_robust_moment", True),
}


def spearman(rows: Sequence[Row], first: str, second: str) -> float | None:
    """Pearson's r of the ranks of two quantities, ties shared; None where there are too few or one does not vary."""
    known = [(row.get(first), row.get(second)) for row in rows]
    pairs = [(a, b) for a, b in known if a is not None and b is not None]
    if not pairs:
        return None
    x, y = (ranks(values) for values in zip(*pairs, strict=True))
    return pearson([{"x": a, "y": b} for a, b in zip(x, y, strict=True)], "x", "y")


def ranks(values: Sequence[float]) -> list[float]:
    """The place of each value in order, from 1; equal ones share theirs."""
    _, place, count = np.unique(np.array(values), return_inverse=True, return_counts=True)
    shared = count.cumsum() - (count - 1) / 2
    found: list[float] = shared[place].tolist()
    return found


def proxies(runs: Sequence[Trajectory]) -> Table | None:
    """Bias, rank correlation and kept calls of every estimate, by optimizer; None where no run has them."""
    rows: list[tuple[Cell, ...]] = []
    for run in (run for run in runs if "proxies" in run.spec.observers):
        for name, (estimate, exact, logs) in _PAIRS.items():
            found = [_off(row, f"train/{estimate}", f"train/{exact}", logs) for row in run.rows]
            off = [value for value in found if value is not None]
            if len(off) < FEWEST:
                continue
            r = spearman(run.rows, f"train/{estimate}", f"train/{exact}")
            kept = _kept(run.rows, estimate)
            rows.append((run.spec.variant, run.lr, name, mean(off), min(off), max(off), r, kept, len(off)))
    if not rows:
        return None
    return Table(
        name="proxies",
        title="Cheap estimates against the exact values along training (training set)",
        columns=("optimizer", "lr", "estimate", "bias of the log", "least", "most", "rank r", "regime kept", "steps"),
        rows=tuple(rows),
        notes=(
            "Bias: log of estimate over exact, mean over the steps. Rank r: Spearman's, along training. Regime "
            "kept: at how many steps the estimate calls the same regime (interpolating or overlap; for robust margins "
            "the attack's call) as the exact values; an estimate that sees all margins cannot err there.",
        ),
    )


def rank_correlations(runs: Sequence[Trajectory]) -> list[float]:
    """Spearman's r of every estimate of every run that has them."""
    table = proxies(runs)
    return [] if table is None else [r for row in table.rows if isinstance(r := row[6], float)]


def _off(row: Row, estimate: str, exact: str, logs: bool) -> float | None:
    found, true = row.get(estimate), row.get(exact)
    if found is None or true is None:
        return None
    if logs:
        return found - true
    return math.log(found / true) if found > 0 and true > 0 else None


def _kept(rows: Sequence[Row], estimate: str) -> str | None:
    batch = estimate.startswith("proxy_batch")
    if not batch and not estimate.startswith("proxy_robust"):
        return None
    called = f"train/proxy_{'batch' if batch else 'robust'}_interpolating"
    smallest = "train/margin_min" if batch else "train/robust_margin_min"
    same = [
        (call > 0) == (least > 0)
        for row in rows
        if (call := row.get(called)) is not None and (least := row.get(smallest)) is not None
    ]
    return f"{sum(same)} of {len(same)}"
