"""SGD beside SAM and CSAM: confidence against accuracy, ECE after post-hoc maps, ECE and TCE along training."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.analysis import need_observers
from surefoot.studies.claim import Claim, slug
from surefoot.studies.outcome import Outcome
from surefoot.studies.paired import (
    Value,
    by_seed,
    difference_claim,
    differences,
    last,
    mean_with_interval,
    overconfidence,
)
from surefoot.table import Cell, Estimate, Table

SHARES = (0.25, 0.5, 0.75, 1.0)  # of training
CLOSE = 2.0  # points between confidence and accuracy that still match closely, our choice
ECE, ECE_AFTER = "test/ece", "test/ece_"  # the latter before the name of a post-hoc map
TCE = f"{ECE_AFTER}temperature"
Networks = Mapping[str, Sequence[Trajectory]]  # the runs of every network


def check(spec: RunSpec) -> None:
    """Raise ValueError unless a run of this spec measures what the study shows."""
    need_observers(spec, "calibration", "posthoc", "reliability")
    if "temperature" not in spec.observers["posthoc"].get("maps", ("temperature",)):
        raise ValueError(f"The study of SAM and SGD needs the post-hoc map temperature, and {spec.label} has none.")


def outcome(runs: Iterable[Trajectory]) -> Outcome:
    """What methods end with, before and after maps, how far SAM is from mapped SGD, and the course of training."""
    networks: dict[str, list[Trajectory]] = {}
    for run in runs:
        if len(run):
            networks.setdefault(run.spec.network, []).append(run)
    return Outcome(
        tables=(_ends(networks), _differences(networks), _along(networks)),
        claims=tuple(claim for network, group in networks.items() for claim in _claims(network, group)),
        title="What the paper says of SAM and SGD, and what these runs say",
        measured="difference here in percent, 95 % interval",
        notes=("Along training: the mean over all moments measured after the first step.",),
    )


def maps_of(runs: Iterable[Trajectory]) -> list[str]:
    """The post-hoc maps after which some run's last ECE was measured."""
    keys = dict.fromkeys(key for run in runs for key in run.columns if math.isfinite(run.last(key)))
    return [key.removeprefix(ECE_AFTER) for key in keys if key.startswith(ECE_AFTER)]


def method_runs(runs: Sequence[Trajectory], method: str) -> list[Trajectory]:
    """The runs of one method."""
    return [run for run in runs if run.spec.method == method]


def paired(
    runs: Sequence[Trajectory], one: str, value: Value, other: str, value_of_other: Value | None = None
) -> list[float]:
    """A value of one method's runs less one of another's, in percent, for each seed that both have."""
    off = differences(method_runs(runs, one), method_runs(runs, other), value, instead=value_of_other)
    return [100 * number for number in off.values()]


def along(key: str) -> Value:
    """The mean over the moments after the first step; NaN where none was measured."""

    def mean(run: Trajectory) -> float:
        steps, values = run.measured("step", key)
        later = values[steps > 0].tolist()
        return sum(later) / len(later) if later else math.nan

    return mean


def at_share(key: str, share: float) -> Value:
    """The value at the observation nearest to a share of the run."""

    def value(run: Trajectory) -> float:
        return float(run[key][np.argmin(np.abs(run["step"] - share * run.last("step")))])

    return value


def mean_by_step(runs: Sequence[Trajectory], key: str) -> dict[float, float]:
    """The mean of a quantity over runs at each observed step after the first, in the order of the steps."""
    by_step: dict[float, list[float]] = {}
    for run in runs:
        for step, value in zip(*(column.tolist() for column in run.measured("step", key)), strict=True):
            if step > 0:
                by_step.setdefault(step, []).append(value)
    return {step: sum(values) / len(values) for step, values in sorted(by_step.items())}


def moments_below(runs: Sequence[Trajectory], one: str, other: str, key: str) -> tuple[int, int]:
    """At how many moments, of how many, one method's mean over seeds is below another's; those after the first step."""
    first, second = (mean_by_step(method_runs(runs, method), key) for method in (one, other))
    shared = first.keys() & second.keys()
    return sum(first[step] < second[step] for step in shared), len(shared)


def _methods(networks: Networks) -> Iterator[tuple[str, Sequence[Trajectory], str]]:
    for network, runs in networks.items():
        for method in dict.fromkeys(run.spec.method for run in runs):
            yield network, runs, method


def _over_seeds(runs: Sequence[Trajectory], method: str, value: Value) -> Estimate:
    return Estimate.of(100 * number for number in by_seed(method_runs(runs, method), value).values())


def _ends(networks: Networks) -> Table:
    maps = maps_of(run for runs in networks.values() for run in runs)
    values = [last("test/accuracy"), overconfidence, last(ECE), *(last(f"{ECE_AFTER}{name}") for name in maps)]
    return Table(
        name="ends",
        title="On the test set after the last step, in percent: mean and deviation over seeds",
        columns=("network", "method", "accuracy", "confidence - accuracy", "ECE", *(f"ECE after {m}" for m in maps)),
        rows=tuple(
            (network, method, *(_over_seeds(runs, method, value) for value in values))
            for network, runs, method in _methods(networks)
        ),
        notes=("Maps are fitted on the validation split; ECE after temperature is the TCE.",),
    )


def _differences(networks: Networks) -> Table:
    maps = maps_of(run for runs in networks.values() for run in runs)
    keys = [ECE, *(f"{ECE_AFTER}{name}" for name in maps)]
    rows: list[tuple[Cell, ...]] = []
    for network, runs, method in _methods(networks):
        if method != "sgd":
            off = [mean_with_interval(paired(runs, method, last(ECE), "sgd", last(key))) for key in keys]
            rows.append((network, method, *off))
    return Table(
        name="differences",
        title="ECE of a method as it is less that of SGD, in percent, paired by seed: mean and 95 % interval",
        columns=("network", "method", "less SGD as it is", *(f"less SGD after {name}" for name in maps)),
        rows=tuple(rows),
    )


def _along(networks: Networks) -> Table:
    parts = [(name, key, share) for name, key in (("ECE", ECE), ("TCE", TCE)) for share in SHARES]
    return Table(
        name="along",
        title="Along training, on the test set, in percent: mean and deviation over seeds",
        columns=("network", "method", *(f"{name} at {share:.0%}" for name, _, share in parts)),
        rows=tuple(
            (network, method, *(_over_seeds(runs, method, at_share(key, share)) for _, key, share in parts))
            for network, runs, method in _methods(networks)
        ),
    )


def _claims(network: str, runs: Sequence[Trajectory]) -> Iterator[Claim]:
    """Every claim about one network."""

    def claim(id: str, statement: str, values: Sequence[float], *, lower: bool = True, limit: float = 0.0) -> Claim:
        id = f"{id}/{slug(network)}"
        return difference_claim(id, statement, values, lower=lower, limit=limit, setting=network)

    off = partial(paired, runs)
    over = [100 * value for value in by_seed(method_runs(runs, "sgd"), overconfidence).values()]
    own_gap = [100 * value for value in by_seed(method_runs(runs, "sam"), _gap).values()]
    close = f"SAM's confidence is within {CLOSE:g} points of its accuracy"
    yield claim("overconfidence/sgd", "SGD is more confident than accurate", over, lower=False)
    yield claim("confidence-gap/sam/sgd", "SAM's confidence is nearer to its accuracy", off("sam", _gap, "sgd"))
    yield claim("confidence-close/sam", close, own_gap, limit=CLOSE)
    yield claim("ece/sam/sgd", "SAM has a lower ECE than SGD", off("sam", last(ECE), "sgd"))
    yield claim("ece/csam/sam", "CSAM has a lower ECE than SAM", off("csam", last(ECE), "sam"))
    for name in maps_of(runs):
        mapped = off("sam", last(ECE), "sgd", last(f"{ECE_AFTER}{name}"))
        statement = f"SAM as it is has a lower ECE than SGD after {name}"
        yield claim(f"ece-after-map/{slug(name)}/sam/sgd", statement, mapped)
    for name, key in (("ECE", ECE), ("TCE", TCE)):
        statement = f"SAM's {name} is lower along training"
        made = claim(f"along-training/{slug(name)}/sam/sgd", statement, off("sam", along(key), "sgd"))
        below, number = moments_below(runs, "sam", "sgd", key)
        yield replace(made, measured=made.measured and f"{made.measured}; lower at {below} of {number} moments")
    yield claim("ece-beyond-tce/sam/sgd", "SAM lowers ECE by more than TCE", off("sam", _repaired, "sgd"))


def _gap(run: Trajectory) -> float:
    return abs(overconfidence(run))


def _repaired(run: Trajectory) -> float:
    """By how much temperature scaling lowers the ECE: two methods differ in it as their ECEs do, less their TCEs."""
    return run.last(ECE) - run.last(TCE)
