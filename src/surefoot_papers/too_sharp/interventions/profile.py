"""What a run does on its way: peak and mean of training ECE, how soon it falls, sharpness, and bounces.

A value is NaN, and a step None, where the run did not measure what it is made of.
"""

import math
from itertools import pairwise

import numpy as np

from surefoot.runs.trajectory import Trajectory

SMALL = 0.02  # training ECE below this counts as calibrated, our choice


def peak(run: Trajectory, key: str) -> float:
    """The largest value of a quantity along the run."""
    place = run.peak(key)
    return math.nan if place is None else float(run[key][place])


def peak_ece(run: Trajectory) -> float:
    """The largest training ECE along the run."""
    return peak(run, "train/ece")


def peak_sharpness(run: Trajectory) -> float:
    """The largest GN sharpness of the training set along the run."""
    return peak(run, "train/ggn_sharpness")


def mean_along(run: Trajectory, key: str) -> float:
    """The area under a quantity over steps (trapezoids between observations), divided by the number of steps."""
    steps, values = (column.tolist() for column in run.measured("step", key))
    if not steps:
        return math.nan
    points = list(zip(steps, values, strict=True))
    area = sum((b - a) * (x + y) / 2 for (a, x), (b, y) in pairwise(points))
    return float(area / max(steps[-1] - steps[0], 1))


def mean_ece(run: Trajectory) -> float:
    """The mean training ECE along the run."""
    return mean_along(run, "train/ece")


def mean_sharpness(run: Trajectory) -> float:
    """The mean GN sharpness of the training set along the run."""
    return mean_along(run, "train/ggn_sharpness")


def steps_to_small(run: Trajectory) -> int | None:
    """The first observed step after the peak with training ECE below 0.02; None if there is none."""
    place = run.peak("train/ece")
    if place is None:
        return None
    below = run.steps[place + 1 :][run["train/ece"][place + 1 :] < SMALL]
    return int(below[0]) if len(below) else None


def decay(run: Trajectory) -> int | None:
    """Steps from the peak of training ECE to the first observation below 0.02; None if there is none."""
    place, reached = run.peak("train/ece"), steps_to_small(run)
    return None if place is None or reached is None else reached - int(run.steps[place])


def rises(run: Trajectory) -> float:
    """The share of equally spaced observations at which training loss is higher than at the one before."""
    (losses,) = run.window("equal").measured("train/nll")
    return float(np.mean(losses[1:] > losses[:-1])) if len(losses) > 1 else math.nan


def loss_left(run: Trajectory) -> float:
    """The last training loss over the first."""
    first = run.first("train/nll")
    return run.last("train/nll") / first if first > 0 else math.nan
