"""Squared error on logits beside cross-entropy: does calibration error stay, and with it curvature?"""

import math
from collections.abc import Iterable, Sequence

from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.analysis import need_observers
from surefoot.studies.correlation import pearson
from surefoot.studies.outcome import Outcome
from surefoot.table import Cell, Table
from surefoot_papers.too_sharp.mse.claims import claim_notes, left_of_peak, squared_error_claims


def check(spec: RunSpec) -> None:
    """Raise ValueError unless a run of this spec measures what the study shows."""
    need_observers(spec, "calibration", "curvature")


def outcome(runs: Iterable[Trajectory]) -> Outcome:
    """What every run ends with, how much of its peak is left, and the claims."""
    done = [run for run in runs if len(run)]
    return Outcome(
        tables=(_ends(done),),
        claims=tuple(squared_error_claims(done)),
        title="What the paper says of squared error, and what these runs say",
        notes=claim_notes(done),
    )


def _ends(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        ece, sharpness = "train/ece", "train/ggn_sharpness"
        values = (
            *(run.last(key) for key in ("train/accuracy", "train/confidence", ece)),
            left_of_peak(run, ece),
            run.last(sharpness),
            left_of_peak(run, sharpness),
            pearson(run, ece, sharpness),
            *(run.last(key) for key in ("test/accuracy", "test/confidence", "test/ece")),
        )
        setting = (run.spec.loss.name, run.spec.variant, run.lr, run.spec.seed)
        rows.append((*setting, *(None if value is None or math.isnan(value) else value for value in values)))
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
        notes=("Confidence below accuracy: the network is underconfident.",),
    )
