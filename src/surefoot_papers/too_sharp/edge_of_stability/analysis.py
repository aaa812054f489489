"""Does curvature rise to 2 / lr and stay there? The table of the edge-of-stability study."""

from collections.abc import Iterable, Sequence

from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.analysis import need_observers
from surefoot.studies.outcome import Outcome
from surefoot.table import Cell, Estimate, Table
from surefoot_papers.too_sharp.edge_of_stability.claims import NEAR, NOTES, at_the_edge, edge_claims, over_edge

KINDS = {
    "largest eigenvalue of the Hessian": "train/hessian_sharpness",
    "of the Gauss-Newton matrix": "train/ggn_sharpness",
    "batch sharpness": "train/batch_sharpness",
}


def check(spec: RunSpec) -> None:
    """Raise ValueError unless a run of this spec measures what the study shows."""
    need_observers(spec, "curvature", "hessian", "batch_sharpness")
    size = spec.observers["batch_sharpness"].get("batch_size", 50)
    if spec.batch_size not in ("full", size):
        raise ValueError(f"`observers.batch_sharpness.batch_size` must be that of {spec.label}, got {size}.")
    if spec.optimizer.name not in ("gd", "sgd") or spec.optimizer.options.get("momentum"):
        raise ValueError(f"The edge-of-stability study is about GD and SGD without momentum, got {spec.label}.")


def outcome(runs: Iterable[Trajectory]) -> Outcome:
    """The table and the claims; there is no paper's table to compare with."""
    done = sorted((run for run in runs if len(run)), key=lambda run: (run.optimizer, run.lr, run.spec.seed))
    return Outcome(
        tables=(_table(done),),
        claims=tuple(edge_claims(done)),
        title="What the literature says, and what these runs say",
        measured="in units of 2/lr",
        notes=NOTES,
    )


def _table(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        there = at_the_edge(run)
        rows.append(
            (
                run.optimizer,
                run.lr,
                run.spec.batch_size,
                run.spec.seed,
                2 / run.lr,
                int(there.steps[0]) if len(there) else None,
                *(over_edge(run, key) for key in KINDS.values()),
                Estimate.of_measured(run["train/hessian_certified"].tolist()).mean,
            )
        )
    return Table(
        name="edge",
        title="Curvature in units of 2/lr, from the first time it is near the edge to the end of the run",
        columns=("optimizer", "lr", "batch", "seed", "2/lr", "near the edge at step", *KINDS, "certified"),
        rows=tuple(rows),
        notes=(
            f"Near the edge: {NEAR['gd']} of 2/lr by the Hessian's largest eigenvalue for GD, {NEAR['sgd']} by batch "
            "sharpness for SGD. Mean ± deviation over the n observed steps from there on, which are not independent. "
            "Certified: the share of the Hessian's eigenvalues proved to the observer's tolerance.",
        ),
    )
