"""Flat minima or flat directions? Which optimizers lower the calibration error of training on its way."""

from collections.abc import Iterable, Sequence

from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.analysis import need_observers
from surefoot.studies.difference import difference_from
from surefoot.studies.outcome import Outcome
from surefoot.studies.paired import last
from surefoot.table import Cell, Estimate, Table
from surefoot_papers.too_sharp.interventions.claims import BASELINE, NOTES, intervention_claims
from surefoot_papers.too_sharp.interventions.profile import (
    SMALL,
    mean_ece,
    peak_ece,
    peak_sharpness,
    steps_to_small,
)

_ENDS = {  # quantities after the last step, as the profile shows them
    "final GN sharpness": "train/ggn_sharpness",
    "final train loss": "train/nll",
    "final train ECE": "train/ece",
    "final train margin (mean)": "train/margin_mean",
    "final test ECE": "test/ece",
    "final test accuracy": "test/accuracy",
}


def check(spec: RunSpec) -> None:
    """Raise ValueError unless a run of this spec measures what the study compares."""
    need_observers(spec, "calibration", "curvature", "margins")


def outcome(runs: Iterable[Trajectory]) -> Outcome:
    """The profile of every optimizer, its differences from plain gradient descent, and the two hypotheses."""
    done = [run for run in runs if len(run)]
    variants = sorted({run.spec.variant for run in done}, key=lambda name: (name != BASELINE, name))
    return Outcome(
        tables=(_profile(done, variants), _differences(done, variants)),
        claims=tuple(intervention_claims(done, variants)),
        title="What the paper (Too Sharp, Too Sure) says, and what these runs say",
        notes=NOTES,
    )


def _profile(runs: Sequence[Trajectory], variants: Sequence[str]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for variant in variants:
        for lr in sorted({run.lr for run in runs if run.spec.variant == variant}):
            group = [run for run in runs if (run.spec.variant, run.lr) == (variant, lr)]
            reached = [step for run in group if (step := steps_to_small(run)) is not None]
            rows.append(
                (
                    variant,
                    lr,
                    Estimate.of_measured(map(peak_ece, group)),
                    Estimate.of_measured(map(mean_ece, group)),
                    f"{sum(reached) / len(reached):.0f} ({len(reached)} of {len(group)})" if reached else None,
                    Estimate.of_measured(map(peak_sharpness, group)),
                    *(Estimate.of_measured(run.last(key) for run in group) for key in _ENDS.values()),
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
            *_ENDS,
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
            values = (peak_ece, mean_ece, last("test/ece"))
            gaps = [difference_from(runs, variant, value, baseline=BASELINE) for value in values]
            rows.append((variant, *("-" if gap is None else str(gap) for gap in gaps)))
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
