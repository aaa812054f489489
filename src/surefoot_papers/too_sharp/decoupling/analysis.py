"""Margins moved while curvature stays: which of the two does calibration follow?"""

from collections.abc import Iterable, Sequence

from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.analysis import need_observers
from surefoot.studies.outcome import Outcome
from surefoot.table import Cell, Estimate, Table
from surefoot_papers.too_sharp.decoupling.claims import NOTES, decoupling_claims, factors, same_sharpness

SHOWN = {
    "sharpness": "sharpness, of what it was",
    "balance": "balance of the layers",
    "train_margin": "train margin",
    "train_ece": "train ECE",
    "test_ece": "test ECE",
    "test_nll": "test NLL",
}


def check(spec: RunSpec) -> None:
    """Raise ValueError unless a run of this spec measures what the study shows."""
    need_observers(spec, "decoupling")


def outcome(runs: Iterable[Trajectory]) -> Outcome:
    """The copies of every optimizer's networks, and what their margins did at one sharpness."""
    done = [run for run in runs if len(run)]
    return Outcome(
        tables=(_copies(done),),
        claims=tuple(decoupling_claims(done)),
        title="Whether calibration follows margins or curvature, where the two are taken apart",
        notes=NOTES,
    )


def _copies(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for optimizer in dict.fromkeys(run.spec.variant for run in runs):
        own = [run for run in runs if run.spec.variant == optimizer]
        for factor in factors(own):
            same = [run for run in own if same_sharpness(run, factor)]
            cells = [Estimate.of_measured(run.last(f"{factor}/{key}") for run in same) for key in SHOWN]
            times = float(factor.removeprefix("times-"))
            rows.append((optimizer, times, f"{len(same)} of {len(own)}", *cells))
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
