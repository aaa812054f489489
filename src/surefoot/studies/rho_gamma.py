"""What SAM and CSAM do over their settings: the entropy by rho, and both at the settings that validation chooses."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from surefoot.studies.comparison import Groups, Judged
from surefoot.studies.correlation import Trajectory
from surefoot.studies.seeds import by_seed, differences, last, verdict, with_interval

_CHOSEN_BY = "validation/ece"
Settings = Mapping[tuple[float, float], Sequence[Trajectory]]  # runs by rho and gamma, which is 0 for SAM


def over_settings(groups: Groups) -> Iterator[Judged]:
    """The claims about rho and gamma that no two methods alone answer."""
    found = {_setting(runs[0]): runs for runs in groups.values() if runs[0].optimizer in ("sam", "csam")}
    plain = {setting: runs for setting, runs in found.items() if setting[1] == 0}
    weighed = {setting: runs for setting, runs in found.items() if setting[1] > 0}
    yield from _entropy(plain)
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


def _tuned(plain: Settings, weighed: Settings) -> Iterator[Judged]:
    """Both at the setting with the lowest mean ECE on the validation split."""
    one, other = (min(part, key=lambda setting: _mean(part[setting])) for part in (weighed, plain))
    chosen = f"rho {one[0]:g} and gamma {one[1]:g} against rho {other[0]:g}"
    for key, what, lower in (("test/ece", "better calibrated", True), ("test/accuracy", "more accurate", False)):
        off = [100 * value for value in differences(weighed[one], plain[other], last(key)).values()]
        told = f"{with_interval(off)}; {chosen}" if off else "-"
        yield f"CSAM with rho and gamma tuned is {what} than SAM with rho tuned", told, verdict(off, lower=lower)


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
