"""What a diagnosis goes by: of a run, from its trajectory; of predictions, from their profile."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from surefoot.diagnosis.bins import stored_bins
from surefoot.diagnosis.profile import Group, Profile
from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Trajectory


@dataclass(frozen=True)
class Repair:
    """What a post-hoc map does to the ECE of samples that it was not fitted on: value, low, high."""

    name: str
    before: tuple[float, float, float]
    after: tuple[float, float, float]
    how: str


@dataclass(frozen=True)
class Facts:
    """All that is known of what is diagnosed; a part that is not known is None."""

    subject: str
    test: Profile | None = None
    train: Profile | None = None
    run: Trajectory | None = None
    status: str = "done"
    reason: str = ""
    repair: Repair | None = None


def run_facts(run: Trajectory, *, status: str = "done", reason: str = "") -> Facts:
    """The facts in what a run measured."""
    test, train = (observed_profile(run.at(-1), split) if len(run) else None for split in ("test", "train"))
    return Facts(run.spec.label, test, train, run, status, reason)


def observed_profile(observation: Mapping[str, float], split: str) -> Profile | None:
    """The profile of a split at one observation; by confidence if the run was observed with `reliability`."""
    keys = (f"{split}/{name}" for name in ("confidence", "accuracy", "ece"))
    confidence, accuracy, ece = (observation.get(key, math.nan) for key in keys)
    if not all(map(math.isfinite, (confidence, accuracy, ece))):
        return None
    bins = bin_groups(observation, split)
    count = sum(each.count for each in bins if each.count is not None) or None
    return Profile(
        split=split,
        whole=Group.of("all", count=count, confidence=confidence, accuracy=accuracy),
        ece=ece,
        bins=bins,
    )


def bin_groups(observation: Mapping[str, float], split: str) -> tuple[Group, ...]:
    """The bins of a split that hold samples, with limits that hold for all of them at once; none if not observed."""
    bins = stored_bins(observation, split)
    return tuple(
        Group.of(
            f"{each.left:.2f}-{each.right:.2f}",
            count=each.count,
            confidence=each.confidence,
            accuracy=each.accuracy,
            among=len(bins),
        )
        for each in bins
    )


def series(run: Trajectory | None, key: str) -> list[tuple[int, float]]:
    """The steps at which a quantity was measured, with its values."""
    if run is None:
        return []
    steps, values = run.measured("step", key)
    return [(int(step), value) for step, value in zip(steps.tolist(), values.tolist(), strict=True)]


def edge(spec: RunSpec) -> float | None:
    """2/lr where that limits stability: plain gradient descent on the mean loss; None elsewhere."""
    plain = spec.optimizer.name in ("gd", "sgd") and not spec.optimizer.options.get("momentum")
    constant = spec.rate.name == "constant" and spec.reduction == "mean"
    return 2 / spec.lr if plain and constant and spec.lr > 0 else None
