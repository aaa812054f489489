"""Margins moved while curvature stays: which of the two does calibration follow?"""

from collections.abc import Iterable, Sequence
from typing import Any

from surefoot.runs.spec import RunSpec
from surefoot.studies.analysis import need_observers
from surefoot.studies.correlation import Trajectory
from surefoot.studies.paired import verdict, with_interval
from surefoot.table import Cell, Estimate, Table

SHOWN = {
    "sharpness": "sharpness, of what it was",
    "balance": "balance of the layers",
    "train_margin": "train margin",
    "train_ece": "train ECE",
    "test_ece": "test ECE",
    "test_nll": "test NLL",
}
TWICE = "times-2"
UNSURE = "cannot tell at this scale"


def check(spec: RunSpec) -> None:
    """Raise ValueError unless a run of this spec measures what the study shows."""
    need_observers(spec, "decoupling")


def outcome(runs: Iterable[Trajectory]) -> dict[str, Any]:
    """The copies of every optimizer's networks, and what their margins did at one sharpness."""
    found = [run for run in runs if run.rows]
    return {
        "figures": "comparison",
        "cells": [],
        "tables": [_copies(found)],
        "claims": _claims(found),
        "curves": [],
    }


def factors(runs: Sequence[Trajectory]) -> list[str]:
    """The copies that were looked at, smallest margins first."""
    named = {key.partition("/")[0] for run in runs for key in run.rows[-1] if key.startswith("times-")}
    return sorted(named, key=lambda name: float(name.removeprefix("times-")))


def held(run: Trajectory, factor: str) -> bool:
    """Whether the copy has the sharpness of the network it came from."""
    return run.rows[-1].get(f"{factor}/same") == 1


def moved(runs: Sequence[Trajectory], key: str) -> list[float]:
    """What twice the margins change in a quantity, in every run where sharpness could be held."""
    pairs = [
        (run.rows[-1].get(f"{TWICE}/{key}"), run.rows[-1].get(f"times-1/{key}")) for run in runs if held(run, TWICE)
    ]
    return [after - before for after, before in pairs if after is not None and before is not None]


def _copies(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for optimizer in dict.fromkeys(run.spec.variant for run in runs):
        mine = [run for run in runs if run.spec.variant == optimizer]
        for factor in factors(mine):
            same = [run for run in mine if held(run, factor)]
            cells = [
                Estimate.of(value for run in same if (value := run.rows[-1].get(f"{factor}/{key}")) is not None)
                for key in SHOWN
            ]
            times = float(factor.removeprefix("times-"))
            rows.append((optimizer, times, f"{len(same)} of {len(mine)}", *cells))
    return Table(
        name="copies",
        title="Copies of the trained networks with other margins and equal GN sharpness, mean and deviation over seeds",
        columns=("optimizer", "logits times", "held", *SHOWN.values()),
        rows=tuple(rows),
        notes=(
            "Held: runs in which some balance of the first two layers gives the sharpness of the trained network; the "
            "others are not averaged. The balance changes no output.",
        ),
    )


def _claims(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for text, factor in (("twice", TWICE), ("half", "times-0.5")):
        copies = [held(run, factor) for run in runs if factor in factors([run])]
        said = UNSURE if not copies else "holds" if all(copies) else "does not hold"
        rows.append(
            (f"{text} the margins can be had at one sharpness", f"in {sum(copies)} of {len(copies)} runs", said)
        )
    for text, key, lower in (
        ("training ECE falls with twice the margins, at one sharpness", "train_ece", True),
        ("test ECE rises with twice the margins, at one sharpness", "test_ece", False),
        ("test NLL rises with twice the margins, at one sharpness", "test_nll", False),
    ):
        values = moved(runs, key)
        rows.append((text, with_interval(values, digits=4), verdict(values, lower=lower)))
    return Table(
        name="claims",
        title="Whether calibration follows margins or curvature, where the two are taken apart",
        columns=("claim", "measured", "verdict"),
        rows=tuple(rows),
        notes=(
            "Differences over all optimizers and seeds, each network and its own copy, with Student's 95 % interval.",
        ),
    )
