"""SGD beside SAM and CSAM: confidence against accuracy, ECE after post-hoc maps, ECE and TCE along training."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from surefoot.runs.spec import RunSpec
from surefoot.studies.analysis import need_observers
from surefoot.studies.correlation import Trajectory
from surefoot.studies.paired import Value, by_seed, differences, last, overconfidence, verdict, with_interval
from surefoot.table import Cell, Estimate, Table

SHARES = (0.25, 0.5, 0.75, 1.0)  # of training
CLOSE = 2.0  # points between confidence and accuracy that still match closely, our choice
_TCE = "test/ece_temperature"


def check(spec: RunSpec) -> None:
    """Raise ValueError unless a run of this spec measures what the study shows."""
    need_observers(spec, "calibration", "posthoc", "reliability")
    if "temperature" not in spec.observers["posthoc"].get("maps", ("temperature",)):
        raise ValueError(f"The study of SAM and SGD needs the post-hoc map temperature, and {spec.label} has none.")


def outcome(runs: Iterable[Trajectory]) -> dict[str, Any]:
    """What methods end with, before and after maps, how far SAM is from mapped SGD, and the course of training."""
    found = [run for run in runs if run.rows]
    networks = list(dict.fromkeys(run.spec.network for run in found))
    groups = {network: [run for run in found if run.spec.network == network] for network in networks}
    return {
        "figures": "sam_versus_sgd",
        "cells": [],
        "tables": [_ends(groups), _differences(groups), _along(groups)],
        "claims": _claims(groups),
        "curves": [],
    }


def maps_of(runs: Sequence[Trajectory]) -> list[str]:
    """The post-hoc maps that were measured."""
    start = "test/ece_"
    return list(dict.fromkeys(key.removeprefix(start) for run in runs for key in run.rows[-1] if key.startswith(start)))


def paired(
    runs: Sequence[Trajectory], one: str, value: Value, other: str, value_of_other: Value | None = None
) -> list[float]:
    """A value of one method's runs less one of another's, in percent, for each seed that both have."""
    off = differences(_of(runs, one), _of(runs, other), value, instead=value_of_other)
    return [100 * number for number in off.values()]


def along(key: str) -> Value:
    """The mean over the moments after the first step."""

    def mean(run: Trajectory) -> float | None:
        values = [value for row in run.rows if row["step"] and (value := row.get(key)) is not None]
        return sum(values) / len(values) if values else None

    return mean


def at_share(key: str, share: float) -> Value:
    """The value at the observation nearest to a share of the run."""

    def value(run: Trajectory) -> float | None:
        end = run.rows[-1]["step"] or 0
        return min(run.rows, key=lambda row: abs((row["step"] or 0) - share * end)).get(key)

    return value


def moments_below(runs: Sequence[Trajectory], one: str, other: str, key: str) -> tuple[int, int]:
    """At how many moments, of how many, one method's mean over seeds is below another's; those after the first step."""
    means: list[dict[float, float]] = []
    for method in (one, other):
        by_step: dict[float, list[float]] = {}
        for run in runs:
            for row in run.rows if run.spec.method == method else []:
                step, value = row["step"], row.get(key)
                if step and value is not None:
                    by_step.setdefault(step, []).append(value)
        means.append({step: sum(values) / len(values) for step, values in by_step.items()})
    shared = means[0].keys() & means[1].keys()
    return sum(means[0][step] < means[1][step] for step in shared), len(shared)


def _of(runs: Sequence[Trajectory], method: str) -> list[Trajectory]:
    return [run for run in runs if run.spec.method == method]


def _methods(groups: dict[str, list[Trajectory]]) -> Iterator[tuple[str, list[Trajectory], str]]:
    for network, runs in groups.items():
        for method in dict.fromkeys(run.spec.method for run in runs):
            yield network, runs, method


def _over_seeds(runs: Sequence[Trajectory], method: str, value: Value) -> Estimate:
    return Estimate.of(100 * number for number in by_seed(_of(runs, method), value).values())


def _ends(groups: dict[str, list[Trajectory]]) -> Table:
    maps = maps_of([run for runs in groups.values() for run in runs])
    values = [last("test/accuracy"), overconfidence, last("test/ece"), *(last(f"test/ece_{name}") for name in maps)]
    return Table(
        name="ends",
        title="On the test set after the last step, in percent: mean and deviation over seeds",
        columns=("network", "method", "accuracy", "confidence - accuracy", "ECE", *(f"ECE after {m}" for m in maps)),
        rows=tuple(
            (network, method, *(_over_seeds(runs, method, value) for value in values))
            for network, runs, method in _methods(groups)
        ),
        notes=("Maps are fitted on the validation split; ECE after temperature is the TCE.",),
    )


def _differences(groups: dict[str, list[Trajectory]]) -> Table:
    maps = maps_of([run for runs in groups.values() for run in runs])
    keys = ["test/ece", *(f"test/ece_{name}" for name in maps)]
    rows: list[tuple[Cell, ...]] = []
    for network, runs, method in _methods(groups):
        if method != "sgd":
            off = [with_interval(paired(runs, method, last("test/ece"), "sgd", last(key))) for key in keys]
            rows.append((network, method, *off))
    return Table(
        name="differences",
        title="ECE of a method as it is less that of SGD, in percent, paired by seed: mean and 95 % interval",
        columns=("network", "method", "less SGD as it is", *(f"less SGD after {name}" for name in maps)),
        rows=tuple(rows),
    )


def _along(groups: dict[str, list[Trajectory]]) -> Table:
    parts = [(name, key, share) for name, key in (("ECE", "test/ece"), ("TCE", _TCE)) for share in SHARES]
    return Table(
        name="along",
        title="Along training, on the test set, in percent: mean and deviation over seeds",
        columns=("network", "method", *(f"{name} at {share:.0%}" for name, _, share in parts)),
        rows=tuple(
            (network, method, *(_over_seeds(runs, method, at_share(key, share)) for _, key, share in parts))
            for network, runs, method in _methods(groups)
        ),
    )


def _claims(groups: dict[str, list[Trajectory]]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for network, runs in groups.items():

        def judge(
            text: str,
            off: Sequence[float],
            *,
            lower: bool = True,
            limit: float = 0.0,
            told: str = "",
            network: str = network,
        ) -> None:
            measured = with_interval(off)
            said = verdict(off, lower=lower, limit=limit)
            rows.append((network, text, "-" if measured is None else measured + told, said))

        over = [100 * value for value in by_seed(_of(runs, "sgd"), overconfidence).values()]
        judge("SGD is more confident than accurate", over, lower=False)
        judge("SAM's confidence is nearer to its accuracy", paired(runs, "sam", _off, "sgd"))
        own = [100 * value for value in by_seed(_of(runs, "sam"), _off).values()]
        judge(f"SAM's confidence is within {CLOSE:g} points of its accuracy", own, limit=CLOSE)
        judge("SAM has a lower ECE than SGD", paired(runs, "sam", last("test/ece"), "sgd"))
        judge("CSAM has a lower ECE than SAM", paired(runs, "csam", last("test/ece"), "sam"))
        for name in maps_of(runs):
            off = paired(runs, "sam", last("test/ece"), "sgd", last(f"test/ece_{name}"))
            judge(f"SAM as it is has a lower ECE than SGD after {name}", off)
        for name, key in (("ECE", "test/ece"), ("TCE", _TCE)):
            below, number = moments_below(runs, "sam", "sgd", key)
            told = f"; lower at {below} of {number} moments"
            judge(f"SAM's {name} is lower along training", paired(runs, "sam", along(key), "sgd"), told=told)
        judge("SAM lowers ECE by more than TCE", paired(runs, "sam", _repaired, "sgd"))
    return Table(
        name="claims",
        title="What the paper says of SAM and SGD, and what these runs say",
        columns=("network", "claim", "difference here in percent, 95 % interval", "verdict"),
        rows=tuple(rows),
        notes=("Along training: the mean over all moments measured after the first step.",),
    )


def _off(run: Trajectory) -> float | None:
    gap = overconfidence(run)
    return None if gap is None else abs(gap)


def _repaired(run: Trajectory) -> float | None:
    """By how much temperature scaling lowers the ECE: two methods differ in it as their ECEs do, less their TCEs."""
    before, after = run.rows[-1].get("test/ece"), run.rows[-1].get(_TCE)
    return None if before is None or after is None else before - after
