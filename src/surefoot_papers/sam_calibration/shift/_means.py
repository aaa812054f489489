"""Means over severities, corruptions and out-of-distribution sets, as further columns of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from surefoot.runs.trajectory import Column, Trajectory
from surefoot_papers.sam_calibration.shift._keys import corrupted_key, corrupted_test_key


def with_means(run: Trajectory) -> Trajectory:
    """The run with means over severities by corruption, over everything (`shifted`), and over OOD sets (`foreign`)."""
    groups: dict[str, list[Column]] = {}
    for key, column in run.columns.items():
        if parts := corrupted_test_key(key):
            for group in (parts.corruption, "shifted"):
                groups.setdefault(f"{group}/{parts.quantity}", []).append(column)
    ood = ood_means(run)
    if ood:
        groups["foreign/auroc_ood"] = list(ood.values())
    means = {key: _mean(columns) for key, columns in groups.items()}
    return replace(run, columns={**run.columns, **means, **ood})


def ood_means(run: Trajectory) -> Mapping[str, Column]:
    """The AUROC of each out-of-distribution set; for one that is corrupted the mean, under its name with -c."""
    areas: dict[str, list[Column]] = {}
    for key, column in run.columns.items():
        where, _, quantity = key.rpartition("/")
        parts = corrupted_key(key)
        if quantity == "auroc_ood" and (parts is None or parts.data is not None):
            areas.setdefault(where if parts is None else f"{parts.data}-c", []).append(column)
    means = {f"{where}/auroc_ood": _mean(columns) for where, columns in areas.items()}
    return {key: column for key, column in means.items() if np.isfinite(column).any()}


def _mean(columns: Sequence[Column]) -> Column:
    """At each step the mean of those that were measured; NaN where none was."""
    stacked = np.stack(columns)
    measured = np.isfinite(stacked)
    count = measured.sum(axis=0)
    total = np.where(measured, stacked, 0.0).sum(axis=0)
    means: Column = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    return means
