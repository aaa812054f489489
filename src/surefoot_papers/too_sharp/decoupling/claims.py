"""What copies of trained networks with other margins say about calibration, margins and curvature."""

import math
from collections.abc import Iterator, Sequence

from surefoot.runs.trajectory import Trajectory
from surefoot.studies.claim import Claim, counted_claim
from surefoot.studies.paired import difference_claim

TWICE, HALF = "times-2", "times-0.5"
NOTES = ("Differences over all optimizers and seeds, each network and its own copy, with Student's 95 % interval.",)


def decoupling_claims(runs: Sequence[Trajectory]) -> Iterator[Claim]:
    """All claims of the study."""
    for text, factor in (("twice", TWICE), ("half", HALF)):
        copies = [same_sharpness(run, factor) for run in runs if factor in factors([run])]
        yield counted_claim(
            f"reachable/{text}-the-margins",
            f"{text} the margins can be had at one sharpness",
            copies,
            measured=f"in {sum(copies)} of {len(copies)} runs",
        )
    for id, statement, key, lower in (
        ("train/ece", "training ECE falls with twice the margins, at one sharpness", "train_ece", True),
        ("test/ece", "test ECE rises with twice the margins, at one sharpness", "test_ece", False),
        ("test/nll", "test NLL rises with twice the margins, at one sharpness", "test_nll", False),
    ):
        yield difference_claim(f"follows-margins/{id}", statement, changes(runs, key), lower=lower, digits=4)


def factors(runs: Sequence[Trajectory]) -> list[str]:
    """The copies that were measured, smallest margins first."""
    measured = {
        key.partition("/")[0]
        for run in runs
        for key in run.columns
        if key.startswith("times-") and math.isfinite(run.last(key))
    }
    return sorted(measured, key=lambda name: float(name.removeprefix("times-")))


def same_sharpness(run: Trajectory, factor: str) -> bool:
    """Whether the copy has the sharpness of the network it came from."""
    return run.last(f"{factor}/same") == 1


def changes(runs: Sequence[Trajectory], key: str) -> list[float]:
    """What twice the margins change in a quantity, in every run whose copy has the same sharpness."""
    gaps = [run.last(f"{TWICE}/{key}") - run.last(f"times-1/{key}") for run in runs if same_sharpness(run, TWICE)]
    return [gap for gap in gaps if math.isfinite(gap)]
