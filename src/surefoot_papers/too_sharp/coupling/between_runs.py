"""Are runs that stay at lower sharpness better calibrated? Learning rates of one optimizer, one with another."""

from collections.abc import Sequence

import numpy as np

from surefoot.runs.trajectory import Sampling, Trajectory
from surefoot.studies.correlation import SPACING, r_of, ranks
from surefoot.table import Cell, Table

FEWEST_RATES = 3  # learning rates under a rank correlation


def rank_between(runs: Sequence[Trajectory], optimizer: str, *, sampling: Sampling) -> float | None:
    """Spearman's r, over an optimizer's learning rates, of mean GN sharpness with mean training ECE along the run.

    Each learning rate counts once, as the mean over its seeds. None where there are too few or one does not vary.
    """
    by_lr: dict[float, list[tuple[float, float]]] = {}
    for run in runs:
        sharpness, error = run.window(sampling).measured("train/ggn_sharpness", "train/ece")
        if run.optimizer == optimizer and len(sharpness):
            by_lr.setdefault(run.lr, []).append((float(sharpness.mean()), float(error.mean())))
    means = np.array([np.mean(values, axis=0) for values in by_lr.values()]).reshape(-1, 2)
    return r_of(*(ranks(column) for column in means.T.tolist()), fewest=FEWEST_RATES)


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
