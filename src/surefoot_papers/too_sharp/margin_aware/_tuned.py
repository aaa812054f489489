"""Methods with their options chosen on the validation split, and what they end with."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from surefoot.runs.selection import JUDGE, selected_place
from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.paired import subtract

LONGER = 3  # a run for how long a method keeps what it has is so many times as long as others of its optimizer
OURS, PLAIN = "margin_aware", "cross_entropy"
_DECAYS = ("weight_decay", "adamw_weight_decay")


def method_of(spec: RunSpec) -> str:
    """The loss, or weight decay where that is all there is beside cross-entropy; ours with options is an ablation."""
    if spec.loss.name == OURS and spec.loss.options:
        return "ablation"
    decays = any(spec.optimizer.options.get(key) for key in _DECAYS)
    return "weight_decay" if decays and spec.loss.name == PLAIN else spec.loss.name


def setting_of(spec: RunSpec) -> str:
    """What was chosen for a method, of its loss and of weight decay."""
    decays = {key: value for key, value in spec.optimizer.options.items() if key in _DECAYS}
    options = {**spec.loss.options, **decays}
    return " ".join(
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in options.items()
    )


@dataclass(frozen=True)
class Ends:
    """The observations of one optimizer's runs with one method that count, by seed."""

    optimizer: str
    method: str
    setting: str
    observations: Mapping[int, Mapping[str, float]]

    def by_seed(self, key: str) -> dict[int, float]:
        """A quantity of every seed that has it."""
        numbers = {seed: end.get(key, math.nan) for seed, end in self.observations.items()}
        return {seed: number for seed, number in numbers.items() if math.isfinite(number)}

    def values(self, key: str) -> list[float]:
        """The same without the seeds."""
        return list(self.by_seed(key).values())


def optimizers(runs: Sequence[Trajectory]) -> list[str]:
    """The optimizers of the runs, in the study's order."""
    return list(dict.fromkeys(run.optimizer for run in runs))


def usual(run: Trajectory, runs: Sequence[Trajectory]) -> Trajectory:
    """The part within the usual budget: of a run that is longer than others of its optimizer, the first third."""
    longest = max(other.spec.budget for other in runs if other.optimizer == run.optimizer)
    within = run.part(run["gradients"] <= longest / LONGER)
    return within if len(within) else run.part(slice(1))


def tuned(runs: Sequence[Trajectory], optimizer: str, method: str, *, stopped: bool = False) -> Ends | None:
    """A method's ends at the setting whose validation NLL there is lowest on average; None where it never ran."""
    offered = settings(runs, optimizer, method, stopped=stopped)
    return min(offered, key=lambda ends: mean_of(ends.values(JUDGE), empty=math.inf), default=None)


def settings(runs: Sequence[Trajectory], optimizer: str, method: str, *, stopped: bool = False) -> list[Ends]:
    """A method's ends at every setting, in the order of the study.

    Args:
        runs: All runs of the study.
        optimizer: The optimizer's name.
        method: As `method_of` has it.
        stopped: Whether a run ends at its lowest validation NLL in place of the last step.
    """
    by_setting: dict[str, dict[int, Mapping[str, float]]] = {}
    for run in runs:
        if (run.optimizer, method_of(run.spec)) == (optimizer, method):
            within = usual(run, runs)
            place = selected_place(within) if stopped else None
            ends = by_setting.setdefault(setting_of(run.spec), {})
            ends[run.spec.seed] = within.at(-1 if place is None else place)
    return [Ends(optimizer, method, setting, ends) for setting, ends in by_setting.items()]


def gaps(one: Ends, other: Ends, key: str, *, instead: str | None = None) -> list[float]:
    """A quantity of one less that of another (or `instead` of it), for each seed that both have."""
    return list(subtract(one.by_seed(key), other.by_seed(instead or key)).values())


def mean_of(values: Sequence[float], *, empty: float = math.nan) -> float:
    """The mean; `empty` of no values."""
    return sum(values) / len(values) if values else empty
