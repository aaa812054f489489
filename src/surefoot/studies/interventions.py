"""Flat minima or flat directions? Which optimizers lower the calibration error of training on its way."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from surefoot.runs.spec import RunSpec
from surefoot.studies.correlation import Trajectory
from surefoot.studies.needs import need_observers
from surefoot.table import Cell, Estimate, Table

BASELINE = "gd"
HYPOTHESES = {
    "1, flat minima": ("sam",),
    "2, directional flatness": ("muon", "bulk_sgd"),
}
SMALL = 0.02  # training ECE below this counts as calibrated, as in the paper's figure
NOTHING = 0.01  # a difference in ECE that is none


def check(spec: RunSpec) -> None:
    """Raise ValueError unless a run of this spec measures what the study compares."""
    need_observers(spec, "calibration", "curvature")


def outcome(runs: Iterable[Trajectory], *, compare_with_paper: bool) -> dict[str, Any]:
    """The profile of every optimizer, its differences from plain gradient descent, and the two hypotheses."""
    found = [run for run in runs if run.rows]
    variants = sorted({run.spec.variant for run in found}, key=lambda name: (name != BASELINE, name))
    return {
        "figures": "comparison",
        "cells": [],
        "tables": [_profile(found, variants), _differences(found, variants)],
        "claims": _claims(found, variants),
        "curves": [],
    }


def peak_ece(run: Trajectory) -> float:
    """The largest training ECE along the run."""
    return run.peak("train/ece")["train/ece"] or 0.0


def mean_ece(run: Trajectory) -> float:
    """The area under training ECE over steps (trapezoids between observations), divided by the number of steps."""
    points = [(row["step"] or 0, row["train/ece"] or 0) for row in run.rows]
    area = sum((b - a) * (x + y) / 2 for (a, x), (b, y) in pairwise(points))
    return area / max(points[-1][0] - points[0][0], 1)


def steps_to_small(run: Trajectory) -> float | None:
    """The first observed step after the peak with training ECE below 0.02; None if there is none."""
    peak = run.peak("train/ece")["step"] or 0
    below = (row["step"] for row in run.rows if (row["step"] or 0) > peak and (row["train/ece"] or 0) < SMALL)
    return next(below, None)


def _profile(runs: Sequence[Trajectory], variants: Sequence[str]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for variant in variants:
        for lr in sorted({run.lr for run in runs if run.spec.variant == variant}):
            group = [run for run in runs if (run.spec.variant, run.lr) == (variant, lr)]
            reached = [step for run in group if (step := steps_to_small(run)) is not None]
            sharp = [[row["train/ggn_sharpness"] or 0 for row in run.rows] for run in group]
            rows.append(
                (
                    variant,
                    lr,
                    Estimate.of(map(peak_ece, group)),
                    Estimate.of(map(mean_ece, group)),
                    f"{sum(reached) / len(reached):.0f} ({len(reached)} of {len(group)})" if reached else None,
                    Estimate.of(map(max, sharp)),
                    Estimate.of(values[-1] for values in sharp),
                    Estimate.of(run.rows[-1]["test/ece"] or 0 for run in group),
                    Estimate.of(run.rows[-1]["test/accuracy"] or 0 for run in group),
                )
            )
    return Table(
        name="profile",
        title="Training ECE, sharpness and the end on test data, by optimizer",
        columns=(
            "optimizer",
            "lr",
            "peak train ECE",
            "mean train ECE",
            f"steps to train ECE < {SMALL} (runs)",
            "peak GN sharpness",
            "final GN sharpness",
            "final test ECE",
            "final test accuracy",
        ),
        rows=tuple(rows),
        notes=(
            "n seeds. Mean train ECE: the area under its curve over steps, divided by the steps. Steps, not gradients: "
            "one of SAM costs two gradients, one of BulkSGD those of its eigenvectors too.",
        ),
    )


def _differences(runs: Sequence[Trajectory], variants: Sequence[str]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for variant in variants:
        if variant != BASELINE:
            peak, mean = (_difference(runs, variant, of) for of in (peak_ece, mean_ece))
            end = _difference(runs, variant, lambda run: run.rows[-1]["test/ece"] or 0.0)
            rows.append((variant, *map(_shown, (peak, mean, end))))
    return Table(
        name="differences",
        title=f"Difference from {BASELINE}, over all learning rates and seeds",
        columns=("optimizer", "peak train ECE", "mean train ECE", "final test ECE"),
        rows=tuple(rows),
        notes=(
            "In brackets the 95 % t-interval: of the mean difference between runs of the same learning rate and seed "
            f"where {BASELINE} has them, else of the difference of means (Welch).",
        ),
    )


Interval = tuple[float, float, float]  # difference, low, high


def _difference(runs: Sequence[Trajectory], variant: str, of: Callable[[Trajectory], float]) -> Interval | None:
    """Paired, where the baseline has a run of the same learning rate and seed for each; else of two groups."""
    ours = {(run.lr, run.spec.seed): of(run) for run in runs if run.spec.variant == variant}
    plain = {(run.lr, run.spec.seed): of(run) for run in runs if run.spec.variant == BASELINE}
    if ours.keys() <= plain.keys():
        gaps = Estimate.of(ours[key] - plain[key] for key in ours)
        return welch(gaps, Estimate(0.0, 0.0, len(plain)))
    return welch(Estimate.of(ours.values()), Estimate.of(plain.values()))


def welch(first: Estimate, second: Estimate, *, level: float = 0.95) -> Interval | None:
    """The difference of two means and its interval by Welch; None where a group has fewer than two values."""
    from scipy.special import stdtrit

    if first.mean is None or first.std is None or second.mean is None or second.std is None:
        return None
    parts = [(item.std or 0.0) ** 2 / item.n for item in (first, second)]
    gap, error = first.mean - second.mean, math.sqrt(sum(parts))
    if error == 0:
        return gap, gap, gap
    both = zip(parts, (first, second), strict=True)
    freedom = sum(parts) ** 2 / sum(part**2 / (item.n - 1) for part, item in both if part > 0)
    half = float(stdtrit(freedom, (1 + level) / 2)) * error
    return gap, gap - half, gap + half


def _shown(interval: Interval | None) -> str:
    return "-" if interval is None else f"{interval[0]:+.3f} [{interval[1]:+.3f}, {interval[2]:+.3f}]"


def _claims(runs: Sequence[Trajectory], variants: Sequence[str]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for hypothesis, optimizers in HYPOTHESES.items():
        verdicts = []
        for variant in [name for name in variants if name.split()[0] in optimizers]:
            peak, mean = (_difference(runs, variant, of) for of in (peak_ece, mean_ece))
            verdicts.append(_verdict(peak, mean))
            statement = f"{variant} lowers training ECE against {BASELINE} (hypothesis {hypothesis})"
            rows.append((statement, _shown(peak), _shown(mean), verdicts[-1]))
        if verdicts:
            together = verdicts[0] if len(set(verdicts)) == 1 else "cannot tell at this scale: its optimizers disagree"
            rows.append((f"hypothesis {hypothesis}, all its optimizers together", "-", "-", together))
    return Table(
        name="claims",
        title="What the paper (Too Sharp, Too Sure) says, and what these runs say",
        columns=("claim", "peak train ECE", "mean train ECE", "verdict"),
        rows=tuple(rows),
        notes=(
            "The paper supports hypothesis 2 over 1. Here a claim holds where both intervals lie below 0; it does not "
            f"hold where one lies above 0, or where both lie within {NOTHING} of 0; else it cannot be told.",
        ),
    )


def _verdict(*intervals: Interval | None) -> str:
    if any(interval is None for interval in intervals):
        return "cannot tell at this scale"
    known = [(low, high) for _, low, high in filter(None, intervals)]
    if all(high < 0 for _, high in known):
        return "holds"
    if any(low > 0 for low, _ in known) or all(low > -NOTHING and high < NOTHING for low, high in known):
        return "does not hold"
    return "cannot tell at this scale"
