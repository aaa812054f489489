"""Are runs that stay at lower sharpness better calibrated? Learning rates of one optimizer, one with another."""

from collections.abc import Sequence

import numpy as np

from surefoot.studies.correlation import SPACING, Trajectory
from surefoot.table import Cell, Table
from surefoot_papers.too_sharp.certificates.proxies import ranks

FEWEST_RATES = 3  # learning rates under a rank correlation


def rank_between(runs: Sequence[Trajectory], optimizer: str, *, sampling: str) -> float | None:
    """Spearman's r, over an optimizer's learning rates, of mean GN sharpness with mean training ECE along the run.

    Each learning rate counts once, as the mean over its seeds. None where there are too few or one does not vary.
    """
    by_lr: dict[float, list[tuple[float, float]]] = {}
    for run in runs:
        rows = run.chosen(sampling, "whole")
        known = [(row["train/ggn_sharpness"], row["train/ece"]) for row in rows]
        pairs = [(sharpness, error) for sharpness, error in known if sharpness is not None and error is not None]
        if run.optimizer == optimizer and pairs:
            sharp, error = np.mean(pairs, axis=0).tolist()
            by_lr.setdefault(run.lr, []).append((sharp, error))
    if len(by_lr) < FEWEST_RATES:
        return None
    means = [np.mean(values, axis=0).tolist() for values in by_lr.values()]
    x, y = (ranks(column) for column in zip(*means, strict=True))
    if len(set(x)) == 1 or len(set(y)) == 1:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def between_runs(runs: Sequence[Trajectory], optimizers: Sequence[str]) -> Table:
    """The table of these correlations, by optimizer."""
    rows: list[tuple[Cell, ...]] = []
    for optimizer in optimizers:
        count = len({run.lr for run in runs if run.optimizer == optimizer})
        rows.append((optimizer, count, *(rank_between(runs, optimizer, sampling=sampling) for sampling in SPACING)))
    return Table(
        name="between-runs",
        title="Spearman's r of mean GN sharpness with mean training ECE, between the learning rates of an optimizer",
        columns=("optimizer", "learning rates", *(f"{spacing} steps" for spacing in SPACING.values())),
        rows=tuple(rows),
        notes=("Means over the steps of a run, then over the seeds of a learning rate. 1: the sharper, the worse.",),
    )
