"""What the literature says about the edge of stability, judged by runs."""

from collections.abc import Iterator, Sequence

import numpy as np

from surefoot.runs.trajectory import Trajectory
from surefoot.studies.claim import Claim, Verdict, slug
from surefoot.table import Estimate

NEAR = {"gd": 0.9, "sgd": 0.75}  # of 2 / lr: from here on observations count, so that there is a phase to judge
LOWEST, HIGHEST = 0.9, 1.3  # of 2 / lr: what their mean may be. Cross-entropy bounces above, not below
NOTES = (
    f"Hovers: the mean from the first time near the edge on is {LOWEST} to {HIGHEST} times 2/lr, limits of our choice "
    "and one for both optimizers. Stays below: that mean is under batch sharpness's. n: observed steps.",
)
_NOT_REACHED = "the edge was not reached"


def edge_claims(runs: Sequence[Trajectory]) -> Iterator[Claim]:
    """All claims of the study: one or two per run."""
    for run, name in zip(runs, _names(runs), strict=True):
        what = "the Hessian's largest eigenvalue" if run.optimizer == "gd" else "batch sharpness"
        ratio = over_edge(run, limited_key(run))
        yield _claim(
            f"hovers/{name}",
            f"{run.optimizer} at lr {run.lr:.4g}: {what} rises to 2/lr and hovers",
            ratio,
            ratio.mean is not None and LOWEST <= ratio.mean <= HIGHEST,
        )
        if run.optimizer == "sgd":
            full = over_edge(run, "train/hessian_sharpness")
            yield _claim(
                f"stays-below/{name}",
                f"sgd at lr {run.lr:.4g}: the full-batch Hessian's largest eigenvalue stays below meanwhile",
                full,
                full.mean is not None and ratio.mean is not None and full.mean < ratio.mean,
            )


def limited_key(run: Trajectory) -> str:
    """The curvature that 2 / lr limits: of the full batch's Hessian under GD, of batches under SGD."""
    return "train/hessian_sharpness" if run.optimizer == "gd" else "train/batch_sharpness"


def at_the_edge(run: Trajectory) -> Trajectory:
    """The observations from the first one near the edge on, once the first fall of curvature is over; else none."""
    values = run[limited_key(run)]
    early = values[: (len(values) + 1) // 2]
    if not np.isfinite(early).any():
        return run.part(slice(0))
    near = values >= NEAR[run.optimizer] * 2 / run.lr  # not where it was not measured
    near[: int(np.nanargmin(early))] = False
    return run.part(slice(int(np.argmax(near)), None) if near.any() else slice(0))


def over_edge(run: Trajectory, key: str) -> Estimate:
    """A curvature in units of 2 / lr, its mean over the observations at the edge."""
    return Estimate.of_measured((at_the_edge(run)[key] / (2 / run.lr)).tolist())


def _claim(id: str, statement: str, ratio: Estimate, holds: bool) -> Claim:
    reached = ratio.mean is not None
    return Claim(
        id=id,
        statement=statement,
        verdict=Verdict.of(holds, decided=reached),
        estimate=ratio.mean,
        n=(ratio.n,),
        unit="steps",
        measured=str(ratio) if reached else _NOT_REACHED,
    )


def _names(runs: Sequence[Trajectory]) -> list[str]:
    """A name for each run in claims' ids; runs that differ in more than it says have their own id behind it."""
    names = [f"{slug(run.optimizer)}/{slug(run.spec.loss.name)}/lr-{run.lr:.4g}/seed-{run.spec.seed}" for run in runs]
    return [name if names.count(name) == 1 else f"{name}/{run.spec.id}" for run, name in zip(runs, names, strict=True)]
