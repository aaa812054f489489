"""Squared error on logits beside cross-entropy: does calibration error stay, and with it curvature?"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from surefoot.runs.spec import RunSpec
from surefoot.studies.analysis import need_observers
from surefoot.studies.correlation import SPACING, Trajectory, correlation, judged, pearson
from surefoot.table import Cell, Table

COLLAPSED = 0.5  # of its largest value along training: what is below has collapsed
CLOSE = 0.05  # to the confidence at the optimum
LEARNT = 0.99  # training accuracy from which on a run speaks about the optimum


def check(spec: RunSpec) -> None:
    """Raise ValueError unless a run of this spec measures what the study shows."""
    need_observers(spec, "calibration", "curvature")


def confidence_at_optimum(num_classes: int) -> float:
    """Softmax confidence of one-hot logits, e / (e + K - 1).

    >>> round(confidence_at_optimum(10), 6)
    0.231969
    """
    return math.e / (math.e + num_classes - 1)


def outcome(runs: Iterable[Trajectory]) -> dict[str, Any]:
    """What every run ends with, how much of its peak is left, and the claims."""
    found = [run for run in runs if run.rows]
    return {
        "figures": "comparison",
        "cells": [],
        "tables": [_ends(found)],
        "claims": _claims(found),
        "curves": [],
    }


def left_of_peak(run: Trajectory, key: str) -> float:
    """The last value of a quantity over the largest along the run."""
    return (run.rows[-1][key] or 0) / (run.peak(key)[key] or math.inf)


def _ends(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        last = run.rows[-1]
        rows.append(
            (
                run.spec.loss.name,
                run.spec.variant,
                run.lr,
                run.spec.seed,
                last["train/accuracy"],
                last["train/confidence"],
                last["train/ece"],
                left_of_peak(run, "train/ece"),
                last["train/ggn_sharpness"],
                left_of_peak(run, "train/ggn_sharpness"),
                pearson(run.rows, "train/ece", "train/ggn_sharpness"),
                last["test/accuracy"],
                last["test/confidence"],
                last["test/ece"],
            )
        )
    return Table(
        name="ends",
        title="After the last step",
        columns=(
            "loss",
            "optimizer",
            "lr",
            "seed",
            "train accuracy",
            "confidence",
            "ECE",
            "of its peak",
            "sharpness",
            "of its peak",
            "r(ECE, sharpness) along training",
            "test accuracy",
            "confidence",
            "ECE",
        ),
        rows=tuple(rows),
        notes=("Confidence below accuracy: the network knows more than it says.",),
    )


def _claims(runs: Sequence[Trajectory]) -> Table:
    squared = [run for run in runs if run.spec.loss.name == "mse"]
    plain = [run for run in runs if run.spec.loss.name == "cross_entropy"]
    learnt = [run for run in squared if (run.rows[-1]["train/accuracy"] or 0) >= LEARNT]
    optimum = confidence_at_optimum(10)

    def share(group: Sequence[Trajectory], holds: Callable[[Trajectory], bool]) -> tuple[str, str]:
        count = sum(map(holds, group))
        said = "holds" if count == len(group) else "does not hold"
        return f"in {count} of {len(group)} runs", said if group else "cannot tell at this scale"

    def below(run: Trajectory) -> bool:
        return (run.rows[-1]["train/confidence"] or 0) < (run.rows[-1]["train/accuracy"] or 0)

    def near(run: Trajectory) -> bool:
        return abs((run.rows[-1]["train/confidence"] or 0) - optimum) < CLOSE

    def kept(key: str) -> Callable[[Trajectory], bool]:
        return lambda run: left_of_peak(run, key) >= COLLAPSED

    def lost(key: str) -> Callable[[Trajectory], bool]:
        return lambda run: left_of_peak(run, key) < COLLAPSED

    rows: list[tuple[Cell, ...]] = [
        ("under squared error the network is underconfident on its training set", *share(squared, below)),
        (
            f"once it fits, its confidence is near e / (e + K - 1) = {optimum:.3f} (within {CLOSE})",
            *share(learnt, near),
        ),
        ("its training ECE does not collapse", *share(squared, kept("train/ece"))),
        ("its sharpness does not collapse", *share(squared, kept("train/ggn_sharpness"))),
        ("under cross-entropy training ECE does", *share(plain, lost("train/ece"))),
        ("and so does its sharpness", *share(plain, lost("train/ggn_sharpness"))),
    ]
    for optimizer in sorted({run.optimizer for run in squared}):
        found = [correlation(squared, optimizer, ("train", "ece", "train"), sampling=sampling) for sampling in SPACING]
        rows.append((f"under squared error too ECE goes along with sharpness under {optimizer}: r > 0", *judged(found)))
    return Table(
        name="claims",
        title="What the paper says of squared error, and what these runs say",
        columns=("claim", "measured", "verdict"),
        rows=tuple(rows),
        notes=(
            f"Collapsed: below {COLLAPSED:.0%} of its largest value. Fits: training accuracy of at least {LEARNT:.0%}. "
            "Both are our choice.",
            "r: as in the coupling study, of training ECE with the training set's GN sharpness. In brackets the 95 % "
            "t-interval of the mean over learning rates, each the mean over its seeds. It holds where the intervals of "
            "both samplings of steps lie above 0, does not hold where both lie below, and cannot be told otherwise.",
        ),
    )
