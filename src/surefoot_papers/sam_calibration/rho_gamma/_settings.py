"""What SAM and CSAM do over their settings: entropy and scores by rho, and the gamma that validation chooses."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from surefoot.runs.trajectory import Trajectory
from surefoot.studies.claim import Claim, conjunction
from surefoot.studies.comparison import Groups
from surefoot.studies.paired import (
    above_zero,
    by_seed,
    difference_claim,
    differences,
    last,
    mean_with_interval,
    subtract,
)

_CHOSEN_BY = "validation/ece"
_ECE, _ACCURACY, _ENTROPY = "test/ece", "test/accuracy", "test/entropy"
Settings = Mapping[tuple[float, float], Sequence[Trajectory]]  # runs by rho and gamma, which is 0 for SAM


def over_settings(groups: Groups) -> Iterator[Claim]:
    """The claims about rho and gamma that no two methods alone answer."""
    settings = {_setting(runs[0]): runs for runs in groups.values() if runs[0].optimizer in ("sam", "csam")}
    sam = {setting: runs for setting, runs in settings.items() if setting[1] == 0}
    csam = {setting: runs for setting, runs in settings.items() if setting[1] > 0}
    sgd = next((runs for runs in groups.values() if runs[0].optimizer == "sgd"), None)
    yield from _entropy_rises(sam)
    if sgd is not None:
        yield from _ece_and_accuracy(sam, sgd)
    if sam and csam:
        yield from _tuned(sam, csam)
        yield from _larger_gamma(settings)
    if sgd is not None:
        yield from _entropy_above(sam, sgd)


def _setting(run: Trajectory) -> tuple[float, float]:
    options = run.spec.optimizer.options
    return float(options.get("rho", 0.05)), 0.0 if run.optimizer == "sam" else float(options.get("gamma", 1.0))


def _entropy_rises(sam: Settings) -> Iterator[Claim]:
    for low, high in pairwise(sorted(sam)):
        yield difference_claim(
            f"entropy-rises/{low[0]:g}/{high[0]:g}",
            f"SAM's entropy rises from rho {low[0]:g} to {high[0]:g}",
            list(differences(sam[high], sam[low], last(_ENTROPY)).values()),
            lower=False,
            digits=3,
        )


def _entropy_above(sam: Settings, sgd: Sequence[Trajectory]) -> Iterator[Claim]:
    for (rho, _), runs in sorted(sam.items()):
        yield difference_claim(
            f"entropy-above-sgd/{rho:g}",
            f"SAM at rho {rho:g} has a higher entropy than SGD",
            list(differences(runs, sgd, last(_ENTROPY)).values()),
            lower=False,
            digits=3,
        )


def _ece_and_accuracy(sam: Settings, sgd: Sequence[Trajectory]) -> Iterator[Claim]:
    """Whether a rho gives a lower ECE and a higher accuracy at once."""
    for (rho, _), runs in sorted(sam.items()):
        ece, accuracy = (_percent(runs, sgd, key) for key in (_ECE, _ACCURACY))
        claim = difference_claim(
            f"ece-and-accuracy/{rho:g}",
            f"SAM at rho {rho:g} has both a lower ECE and a higher accuracy than SGD",
            ece,
        )
        yield replace(
            claim,
            verdict=conjunction([claim.verdict, above_zero(accuracy)]),
            measured=f"ECE {mean_with_interval(ece) or '-'}; accuracy {mean_with_interval(accuracy) or '-'}",
        )


def _tuned(sam: Settings, csam: Settings) -> Iterator[Claim]:
    """At each rho that both have, CSAM with the gamma of the lowest mean ECE on the validation split."""
    for rho in sorted({rho for rho, _ in sam} & {rho for rho, _ in csam}):
        by_gamma = {gamma: runs for (at, gamma), runs in csam.items() if at == rho}
        errors = {gamma: _mean(runs) for gamma, runs in by_gamma.items()}
        measured = {gamma: error for gamma, error in errors.items() if math.isfinite(error)}
        if not measured:
            continue
        gamma = min(measured, key=lambda each: measured[each])
        for key, name, what in ((_ECE, "ece", "better calibrated"), (_ACCURACY, "accuracy", "more accurate")):
            claim = difference_claim(
                f"gamma-tuned/{name}/{rho:g}",
                f"CSAM with gamma tuned is {what} than SAM at rho {rho:g}",
                _percent(by_gamma[gamma], sam[rho, 0.0], key),
                lower=key == _ECE,
            )
            yield replace(claim, measured=claim.measured and f"{claim.measured}; gamma {gamma:g}")


def _larger_gamma(settings: Settings) -> Iterator[Claim]:
    """The best gamma of each seed, 0 for SAM, at the smallest rho less that at the largest."""
    rhos = [rho for rho, gamma in settings if gamma > 0]
    small, large = min(rhos), max(rhos)
    yield difference_claim(
        f"larger-gamma/{small:g}/{large:g}",
        f"rho {small:g} wants a larger gamma than rho {large:g}",
        list(subtract(_best_gammas(settings, small), _best_gammas(settings, large)).values()),
        lower=False,
    )


def _best_gammas(settings: Settings, rho: float) -> dict[int, float]:
    errors = {gamma: by_seed(runs, last(_CHOSEN_BY)) for (at, gamma), runs in settings.items() if at == rho}
    seeds = set.intersection(*(set(each) for each in errors.values()))
    return {seed: min(errors, key=lambda gamma: errors[gamma][seed]) for seed in seeds}


def _percent(runs: Sequence[Trajectory], others: Sequence[Trajectory], key: str) -> list[float]:
    return [100 * value for value in differences(runs, others, last(key)).values()]


def _mean(runs: Sequence[Trajectory]) -> float:
    """The mean over seeds of the ECE on the validation split; NaN where it was not measured."""
    errors = by_seed(runs, last(_CHOSEN_BY)).values()
    return sum(errors) / len(errors) if errors else math.nan
