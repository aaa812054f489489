"""Flat minima or flat directions? Which optimizers lower the calibration error of training on its way."""

from collections.abc import Iterable, Sequence
from typing import Any

from surefoot.runs.spec import RunSpec
from surefoot.studies.analysis import need_observers
from surefoot.studies.correlation import Trajectory
from surefoot.studies.difference import BASELINE, difference
from surefoot.table import Cell, Estimate, Table
from surefoot_papers.too_sharp.interventions.claims import intervention_claims
from surefoot_papers.too_sharp.interventions.profile import SMALL, last, mean_ece, peak_ece, steps_to_small


def check(spec: RunSpec) -> None:
    """Raise ValueError unless a run of this spec measures what the study compares."""
    need_observers(spec, "calibration", "curvature", "margins")


def outcome(runs: Iterable[Trajectory]) -> dict[str, Any]:
    """The profile of every optimizer, its differences from plain gradient descent, and the two hypotheses."""
    found = [run for run in runs if run.rows]
    variants = sorted({run.spec.variant for run in found}, key=lambda name: (name != BASELINE, name))
    return {
        "figures": "comparison",
        "cells": [],
        "tables": [_profile(found, variants), _differences(found, variants)],
        "claims": intervention_claims(found, variants),
        "curves": [],
    }


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
                    *(Estimate.of(last(run, f"train/{key}") for run in group) for key in ("nll", "ece", "margin_mean")),
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
            "final train loss",
            "final train ECE",
            "final train margin (mean)",
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
            found = [difference(runs, variant, of) for of in (peak_ece, mean_ece, lambda run: last(run, "test/ece"))]
            rows.append((variant, *("-" if gap is None else str(gap) for gap in found)))
    return Table(
        name="differences",
        title=f"Difference from {BASELINE}, over all learning rates and seeds",
        columns=("optimizer", "peak train ECE", "mean train ECE", "final test ECE"),
        rows=tuple(rows),
        notes=(
            "In brackets the 95 % t-interval: of the mean difference between runs of the same learning rate and seed "
            f"where {BASELINE} has them (n pairs), else of the difference of means by Welch (n and n runs). Both the "
            "learning rates and the seeds are in the spread.",
        ),
    )
