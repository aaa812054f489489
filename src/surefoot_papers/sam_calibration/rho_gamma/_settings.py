"""What SAM and CSAM do over their settings: entropy and scores by rho, and the gamma that validation chooses."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from surefoot.studies.comparison import Groups, Judged
from surefoot.studies.correlation import Trajectory
from surefoot.studies.paired import both, by_seed, differences, last, verdict, with_interval

_CHOSEN_BY = "validation/ece"
_ECE, _ACCURACY = "test/ece", "test/accuracy"
Settings = Mapping[tuple[float, float], Sequence[Trajectory]]  # runs by rho and gamma, which is 0 for SAM


def over_settings(groups: Groups) -> Iterator[Judged]:
    """The claims about rho and gamma that no two methods alone answer."""
    found = {_setting(runs[0]): runs for runs in groups.values() if runs[0].optimizer in ("sam", "csam")}
    plain = {setting: runs for setting, runs in found.items() if setting[1] == 0}
    weighed = {setting: runs for setting, runs in found.items() if setting[1] > 0}
    yield from _entropy(plain)
    base = next((runs for runs in groups.values() if runs[0].optimizer == "sgd"), None)
    if base is not None:
        yield from _both(plain, base)
    if plain and weighed:
        yield from _tuned(plain, weighed)
        yield from _wanted_gamma(found)


def _setting(run: Trajectory) -> tuple[float, float]:
    options = run.spec.optimizer.options
    plain = run.optimizer == "sam"
    return float(options.get("rho", 0.05)), 0.0 if plain else float(options.get("gamma", 1.0))


def _entropy(plain: Settings) -> Iterator[Judged]:
    rhos = sorted(plain)
    for low, high in pairwise(rhos):
        off = list(differences(plain[high], plain[low], last("test/entropy")).values())
        told = with_interval(off, digits=3) or "-"
        yield f"SAM's entropy rises from rho {low[0]:g} to {high[0]:g}", told, verdict(off, lower=False)


def _both(plain: Settings, base: Sequence[Trajectory]) -> Iterator[Judged]:
    """Whether a rho gives a lower ECE and a higher accuracy at once."""
    for (rho, _), runs in sorted(plain.items()):
        offs = [[100 * off for off in differences(runs, base, last(key)).values()] for key in (_ECE, _ACCURACY)]
        told = [f"{name} {with_interval(off) or '-'}" for name, off in zip(("ECE", "accuracy"), offs, strict=True)]
        said = both(verdict(offs[0], lower=True), verdict(offs[1], lower=False))
        yield f"SAM at rho {rho:g} has both a lower ECE and a higher accuracy than SGD", "; ".join(told), said


def _tuned(plain: Settings, weighed: Settings) -> Iterator[Judged]:
    """At each rho both have, CSAM with the gamma of the lowest mean ECE on the validation split."""
    for rho in sorted({rho for rho, _ in plain} & {rho for rho, _ in weighed}):
        other = plain[rho, 0.0]
        part = {gamma: runs for (at, gamma), runs in weighed.items() if at == rho}
        gamma = min(part, key=lambda each: _mean(part[each]))
        for key, what, lower in ((_ECE, "better calibrated", True), (_ACCURACY, "more accurate", False)):
            off = [100 * value for value in differences(part[gamma], other, last(key)).values()]
            told = f"{with_interval(off)}; gamma {gamma:g}" if off else "-"
            yield f"CSAM with gamma tuned is {what} than SAM at rho {rho:g}", told, verdict(off, lower=lower)


def _wanted_gamma(found: Settings) -> Iterator[Judged]:
    """The best gamma of each seed, 0 for SAM, at the smallest rho less that at the largest."""
    rhos = [rho for rho, gamma in found if gamma > 0]
    small, large = (_best_gammas(found, rho) for rho in (min(rhos), max(rhos)))
    off = [small[seed] - large[seed] for seed in sorted(small.keys() & large.keys())]
    text = f"rho {min(rhos):g} wants a larger gamma than rho {max(rhos):g}"
    yield text, with_interval(off) or "-", verdict(off, lower=False)


def _best_gammas(found: Settings, rho: float) -> dict[int, float]:
    errors = {gamma: by_seed(runs, last(_CHOSEN_BY)) for (at, gamma), runs in found.items() if at == rho}
    seeds = set.intersection(*(set(each) for each in errors.values()))
    return {seed: min(errors, key=lambda gamma: errors[gamma][seed]) for seed in seeds}


def _mean(runs: Sequence[Trajectory]) -> float:
    errors = by_seed(runs, last(_CHOSEN_BY)).values()
    return sum(errors) / len(errors) if errors else float("inf")
