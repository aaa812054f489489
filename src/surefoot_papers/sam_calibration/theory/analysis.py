"""Does SAM's climb do what is proved of it, under assumptions that are met?"""

from collections.abc import Iterable, Sequence

import numpy as np

from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.analysis import need_observers
from surefoot.studies.outcome import Outcome
from surefoot.table import Cell, Estimate, Table
from surefoot_papers.sam_calibration.theory._claims import MOST, STATEMENTS, claims, counted, quotient, ratio


def check(spec: RunSpec) -> None:
    """Raise ValueError unless a run of this spec measures what the study shows."""
    need_observers(spec, "sam_theory")


def outcome(runs: Iterable[Trajectory]) -> Outcome:
    """How often each statement holds along training, the curvature on the path, and the claims."""
    observed = [run for run in runs if len(run)]
    return Outcome(
        tables=(_verdicts(observed), _path(observed)),
        claims=tuple(claims(observed)),
        title="What the paper (Towards Understanding the Calibration Benefits of SAM) says, and what these runs say",
        notes=(
            f"A fall must be seen at {MOST:.0%} of the steps, and a straight line explain {MOST:.0%} of kappa_min's "
            "variance on the path in the median step. Early and late: the means of the first and the last quarter of a "
            "run's observed steps. Intervals are over seeds.",
        ),
    )


def _verdicts(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        for key, statement in STATEMENTS.items():
            rows.append((_name(run), run.lr, run.spec.seed, statement, *counted([run], key)))
    return Table(
        name="verdicts",
        title="Observed steps at which each statement holds, its assumption is not met, or it fails",
        columns=("optimizer", "lr", "seed", "statement", "holds", "assumption not met", "fails"),
        rows=tuple(rows),
    )


def _name(run: Trajectory) -> str:
    return f"{run.spec.variant}, one sample" if run.spec.batch_size == 1 else run.spec.variant


def _path(runs: Sequence[Trajectory]) -> Table:
    return Table(
        name="path",
        title="Curvature on the path from theta to theta~, and what the climb does",
        columns=(
            "optimizer",
            "lr",
            "seed",
            "-kappa_min rho / ||g||",
            "the same along the gradient",
            "its largest",
            "lambda",
            "lambda / lambda_0",
            "rise of the loss / (rho ||g|| / 2)",
        ),
        rows=tuple((_name(run), run.lr, run.spec.seed, *_path_cells(run)) for run in runs),
        notes=(
            "Mean ± deviation over the n observed steps, which are not independent. The lemma's assumption is that the "
            "first of these numbers is at most 1.",
        ),
    )


def _path_cells(run: Trajectory) -> list[Cell]:
    inside = ratio(run, "sam_kappa_min")
    columns = (
        inside,
        ratio(run, "sam_directional"),
        run["train/sam_lambda"],
        quotient(run["train/sam_lambda"], run["train/sam_lambda_0"]),
        quotient(run["train/sam_rise"], run["train/sam_half_rise"]),
    )
    smallest, along, *others = (Estimate.of_measured(column.tolist()) for column in columns)
    largest = float(np.nanmax(inside)) if np.isfinite(inside).any() else None
    return [smallest, along, largest, *others]
