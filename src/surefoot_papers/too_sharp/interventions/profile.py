"""What a run does on its way: peak and mean of training ECE, how soon it falls, sharpness, and bounces."""

from itertools import pairwise

from surefoot.studies.correlation import Trajectory

SMALL = 0.02  # training ECE below this counts as calibrated, our choice


def peak_ece(run: Trajectory) -> float:
    """The largest training ECE along the run."""
    return run.peak("train/ece")["train/ece"] or 0.0


def mean_along(run: Trajectory, key: str) -> float:
    """The area under a quantity over steps (trapezoids between observations), divided by the number of steps."""
    points = [(row["step"] or 0, row[key] or 0) for row in run.rows]
    area = sum((b - a) * (x + y) / 2 for (a, x), (b, y) in pairwise(points))
    return area / max(points[-1][0] - points[0][0], 1)


def mean_ece(run: Trajectory) -> float:
    """The mean training ECE along the run."""
    return mean_along(run, "train/ece")


def steps_to_small(run: Trajectory) -> float | None:
    """The first observed step after the peak with training ECE below 0.02; None if there is none."""
    peak = run.peak("train/ece")["step"] or 0
    below = (row["step"] for row in run.rows if (row["step"] or 0) > peak and (row["train/ece"] or 0) < SMALL)
    return next(below, None)


def last(run: Trajectory, key: str) -> float:
    """A quantity after the last step."""
    return run.rows[-1][key] or 0.0


def rises(run: Trajectory) -> float:
    """The share of equally spaced observations at which training loss is higher than at the one before."""
    losses = [row["train/nll"] or 0.0 for row in run.chosen("equal", "whole")]
    return sum(after > before for before, after in pairwise(losses)) / max(len(losses) - 1, 1)


def decay(run: Trajectory) -> float | None:
    """Steps from the peak of training ECE to the first observation below 0.02; None if there is none."""
    reached = steps_to_small(run)
    return None if reached is None else reached - (run.peak("train/ece")["step"] or 0)


def peak_sharpness(run: Trajectory) -> float:
    """The largest GN sharpness of the training set along the run."""
    return run.peak("train/ggn_sharpness")["train/ggn_sharpness"] or 0.0
