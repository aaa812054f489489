"""What a diagnosis goes by: of a run, from its rows; of predictions, from their profile."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from surefoot.diagnosis.bins import stored_bins
from surefoot.diagnosis.profile import Group, Profile
from surefoot.runs.trajectory import Row
from surefoot.runs.spec import RunSpec


@dataclass(frozen=True)
class Repair:
    """What a post-hoc map does to the ECE of samples that it was not fitted on: value, low, high."""

    name: str
    before: tuple[float, float, float]
    after: tuple[float, float, float]
    how: str


@dataclass(frozen=True)
class Facts:
    """All that is known of what is diagnosed; a part that is not known is None or empty."""

    subject: str
    test: Profile | None = None
    train: Profile | None = None
    spec: RunSpec | None = None
    rows: Sequence[Row] = ()
    status: str = "done"
    reason: str = ""
    repair: Repair | None = None


def run_facts(spec: RunSpec, rows: Sequence[Row], *, status: str = "done", reason: str = "") -> Facts:
    """The facts in a run's rows."""
    test, train = (row_profile(rows[-1], split) if rows else None for split in ("test", "train"))
    return Facts(spec.label, test, train, spec, rows, status, reason)


def row_profile(row: Row, split: str) -> Profile | None:
    """The profile of a split at one observation; by confidence if the run was observed with `reliability`."""
    confidence, accuracy, ece = (row.get(f"{split}/{key}") for key in ("confidence", "accuracy", "ece"))
    if confidence is None or accuracy is None or ece is None:
        return None
    bins = row_bins(row, split)
    count = sum(each.count or 0 for each in bins) or None
    return Profile(
        split=split,
        whole=Group.of("all", count=count, confidence=confidence, accuracy=accuracy),
        ece=ece,
        bins=bins,
    )


def row_bins(row: Row, split: str) -> tuple[Group, ...]:
    """The bins of a split that hold samples, with limits that hold for all of them at once; none if not observed."""
    held = stored_bins(row, split)
    return tuple(
        Group.of(
            f"{each.left:.2f}-{each.right:.2f}",
            count=each.count,
            confidence=each.confidence,
            accuracy=each.accuracy,
            among=len(held),
        )
        for each in held
    )


def series(rows: Sequence[Row], key: str) -> list[tuple[int, float]]:
    """The steps at which a quantity is known, with its values."""
    found = ((row.get("step"), row.get(key)) for row in rows)
    return [(int(step), value) for step, value in found if step is not None and value is not None]


def learning_rate(spec: RunSpec) -> float:
    """The learning rate; NaN where none is named."""
    rate = spec.optimizer.options.get("lr")
    return float(rate) if isinstance(rate, int | float) else math.nan


def edge(spec: RunSpec) -> float | None:
    """2/lr where that limits stability: plain gradient descent on the mean loss; None elsewhere."""
    plain = spec.optimizer.name in ("gd", "sgd") and not spec.optimizer.options.get("momentum")
    constant = spec.rate.name == "constant" and spec.reduction == "mean"
    return 2 / learning_rate(spec) if plain and constant and learning_rate(spec) > 0 else None
