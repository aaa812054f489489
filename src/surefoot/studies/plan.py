"""How long a study will take, and the largest part of it that fits into a time."""

import heapq
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from surefoot.runs.spec import RunSpec
from surefoot.studies.cost import costs, kind
from surefoot.studies.engines.engine import Trial

_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


@dataclass(frozen=True)
class Plan:
    """Trials to do, in order, those left out, and the seconds that each is expected to take."""

    trials: tuple[Trial, ...]
    left_out: tuple[Trial, ...]
    seconds: Mapping[str, float]  # by run id
    num_workers: int
    num_kinds: int  # short runs that the seconds are estimated from
    calibration_seconds: float
    notes: tuple[str, ...] = ()

    @property
    def wall_seconds(self) -> float:
        """From the first start to the last end, `num_workers` at a time."""
        clock = _Workers(self.num_workers)
        for trial in self.trials:
            clock.add(self.seconds[trial.id])
        return clock.end


def plan(
    specs: Sequence[RunSpec],
    todo: Sequence[Trial],
    *,
    num_workers: int,
    seconds: float | None = None,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
) -> Plan:
    """The trials to do of a study's specs, all or as many as fit into `seconds`, this call included.

    What fits is chosen breadth first: each method's first point with the first seed, then the second points, ..., then
    the second seed. A layer that does not fit as a whole is the last one, and has what of it fits. ValueError if
    nothing does. `on_progress` is called with the number of short runs done and the number of all.
    """
    begun = time.monotonic()

    def in_time(done: int, of: int) -> None:
        if seconds is not None and time.monotonic() - begun > seconds:
            raise ValueError(
                f"`budget` must be longer: {format_duration(seconds)} went by measuring {done} of {of} kinds of runs."
            )
        on_progress(done, of)

    cost_of = costs((trial.spec for trial in todo), on_progress=in_time)
    took = time.monotonic() - begun
    each = {trial.id: cost_of[kind(trial.spec)].of(trial.spec) for trial in todo}
    chosen = list(todo)
    if seconds is not None:
        chosen = _fitting(specs, todo, each, num_workers, seconds - took)
        if todo and not chosen:
            least = format_duration(min(each.values()) + took)
            raise ValueError(f"`budget` must be at least about {least}, got {format_duration(seconds)}: no run fits.")
    ids = {trial.id for trial in chosen}
    failures = Counter(cost.failure for cost in cost_of.values() if cost.failure)
    return Plan(
        trials=tuple(chosen),
        left_out=tuple(trial for trial in todo if trial.id not in ids),
        seconds=each,
        num_workers=num_workers,
        num_kinds=len(cost_of),
        calibration_seconds=took,
        notes=tuple(f"{count} of the short runs ended early ({why})." for why, count in failures.items()),
    )


def layers(specs: Iterable[RunSpec]) -> list[list[RunSpec]]:
    """Specs breadth first: one of every method and the first seed, the next of every method, ..., the next seed."""
    by_layer: dict[tuple[int, int], list[RunSpec]] = {}
    seeds: dict[int, int] = {}
    seen: Counter[tuple[int, str]] = Counter()
    for spec in specs:
        seed = seeds.setdefault(spec.seed, len(seeds))
        method = (spec.seed, spec.method_with_options)
        by_layer.setdefault((seed, seen[method]), []).append(spec)
        seen[method] += 1
    return [by_layer[key] for key in sorted(by_layer)]


def duration(text: str) -> float:
    """Seconds of a time such as 90s, 30m, 1h30m or 2d; ValueError for anything else.

    >>> duration("30m"), duration("1h30m"), duration("1.5h")
    (1800.0, 5400.0, 5400.0)
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)([dhms])", text)
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or not seconds:
        raise ValueError(f"`budget` must be a time such as 30m, 90s or 1h30m, got {text!r}.")
    return seconds


def format_duration(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> format_duration(5.4), format_duration(1800), format_duration(5400)
    ('5.4 s', '30.0 min', '1.5 h')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def _fitting(
    specs: Sequence[RunSpec], todo: Sequence[Trial], each: Mapping[str, float], num_workers: int, seconds: float
) -> list[Trial]:
    trials = {trial.id: trial for trial in todo}
    clock = _Workers(num_workers)
    chosen: list[Trial] = []
    for layer in layers(specs):
        asked = [trials[spec.id] for spec in layer if spec.id in trials]  # the others have ended
        fitting = [trial for trial in asked if clock.add(each[trial.id], by=seconds)]
        chosen += fitting
        if len(fitting) < len(asked):
            break
    return chosen


@dataclass
class _Workers:
    """Workers that take the next run as soon as they are free."""

    count: int
    end: float = 0.0
    _free: list[float] = field(default_factory=list)

    def add(self, seconds: float, *, by: float = float("inf")) -> bool:
        """Give a run to the worker that is free first, if it ends in time."""
        free = self._free or [0.0] * self.count
        end = free[0] + seconds
        if end > by:
            return False
        heapq.heapreplace(free, end)
        self._free, self.end = free, max(self.end, end)
        return True
