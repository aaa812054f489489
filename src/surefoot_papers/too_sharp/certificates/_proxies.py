"""How good the cheap stand-ins for the margin tail are along training."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean

from surefoot.runs.trajectory import Trajectory
from surefoot.studies.correlation import FEWEST, spearman
from surefoot.table import Table

_PAIRS = {  # name for people -> estimate, exact value, whether they are logarithms already
    "log Q, from a mini-batch": ("proxy_batch_log_moment", "log_margin_moment", True),
    "2 C_J^2 (K - 1) Q, from a mini-batch": ("proxy_batch_bound_sharpness", "bound_sharpness", False),
    "mean sharpness of one sample, low rank": ("proxy_low_rank_sharpness", "bound_sharpness_ours", False),
    "log Q0, by input gradients": ("proxy_robust_log_moment", "log_robust_moment", True),
}
_CALLS = {  # beginning of an estimate -> which regime it calls, and the margin whose sign is the truth
    "proxy_batch": ("train/proxy_batch_interpolating", "train/margin_min"),
    "proxy_robust": ("train/proxy_robust_interpolating", "train/robust_margin_min"),
}


@dataclass(frozen=True)
class Agreement:
    """How far a cheap estimate agrees with what it stands for along one run."""

    run: Trajectory
    name: str
    errors: list[float]  # log of estimate over exact value, at the observed steps that have both
    rank_r: float | None  # Spearman's, along training
    regime: str | None  # at how many steps it calls the same regime; None where it calls none


def agreements(runs: Sequence[Trajectory]) -> Iterator[Agreement]:
    """Every estimate of every run that has enough observations of it."""
    for run in (run for run in runs if "proxies" in run.spec.observers):
        for name, (estimate, exact, logs) in _PAIRS.items():
            keys = (f"train/{estimate}", f"train/{exact}")
            errors = _errors(run, *keys, logs=logs)
            if len(errors) >= FEWEST:
                yield Agreement(run, name, errors, spearman(run, *keys), _regime(run, estimate))


def proxies(runs: Sequence[Trajectory]) -> Table | None:
    """Bias, rank correlation and kept calls of every estimate, by optimizer; None where no run has them."""
    rows = tuple(
        (
            *(each.run.spec.variant, each.run.lr, each.name),
            *(mean(each.errors), min(each.errors), max(each.errors)),
            *(each.rank_r, each.regime, len(each.errors)),
        )
        for each in agreements(runs)
    )
    if not rows:
        return None
    return Table(
        name="proxies",
        title="Cheap estimates against the exact values along training (training set)",
        columns=("optimizer", "lr", "estimate", "bias of the log", "least", "most", "rank r", "regime kept", "steps"),
        rows=rows,
        notes=(
            "Bias: log of estimate over exact, mean over the steps. Rank r: Spearman's, along training. Regime "
            "kept: at how many steps the estimate calls the same regime (interpolating or overlap; for robust margins "
            "the attack's call) as the exact values; an estimate that sees all margins cannot err there.",
        ),
    )


def _errors(run: Trajectory, estimate: str, exact: str, *, logs: bool) -> list[float]:
    pairs = zip(*(column.tolist() for column in run.measured(estimate, exact)), strict=True)
    if logs:
        return [guess - true for guess, true in pairs]
    return [math.log(guess / true) for guess, true in pairs if guess > 0 and true > 0]


def _regime(run: Trajectory, estimate: str) -> str | None:
    keys = next((keys for beginning, keys in _CALLS.items() if estimate.startswith(beginning)), None)
    if keys is None:
        return None
    call, least = run.measured(*keys)
    return f"{int(((call > 0) == (least > 0)).sum())} of {len(call)}"
