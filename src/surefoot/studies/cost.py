"""What a run will cost, estimated from its first steps."""

import json
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from surefoot.runs.folder import RunFolder
from surefoot.runs.spec import RunSpec
from surefoot.training.schedule import Schedule

GRADIENTS = 6  # of a calibration: it observes before, in the middle (if a step takes one gradient) and after


@dataclass(frozen=True)
class Cost:
    """Seconds of the parts of a run, measured on a short one of the same kind; `failure` where that one failed."""

    start: float  # loading, building, saving
    first_observation: float  # more expensive than the others, which start warm
    observation: float
    gradient: float
    gradients_per_step: float
    failure: str = ""

    def of(self, spec: RunSpec) -> float:
        """Seconds of a whole run of this kind."""
        num_steps = -(-spec.budget // max(round(self.gradients_per_step), 1))
        num_observations = sum(map(spec.schedule, range(1, num_steps))) + 1
        training = spec.budget * self.gradient
        return self.start + self.first_observation + training + num_observations * self.observation


def kind(spec: RunSpec) -> str:
    """The same for specs whose steps and observations cost the same.

    Seed, budget, schedule, rate and the real numbers among the options of optimizer and loss do not count.
    """
    tree = spec.to_dict()
    for key in ("seed", "budget", "schedule", "rate"):
        del tree[key]
    for key in ("optimizer", "loss"):
        tree[key] = {name: value for name, value in tree[key].items() if not isinstance(value, float)}
    return json.dumps(tree, sort_keys=True)


def costs(
    specs: Iterable[RunSpec], *, on_progress: Callable[[int, int], None] = lambda done, of: None
) -> dict[str, Cost]:
    """The cost of every kind among the specs, each measured on the one with the smallest learning rate.

    Before each, `on_progress` is called with the number measured so far and the number of kinds.
    """
    chosen: dict[str, RunSpec] = {}
    for spec in specs:
        if spec.lr < chosen.setdefault(kind(spec), spec).lr:  # the least likely to diverge at once
            chosen[kind(spec)] = spec
    measured_costs: dict[str, Cost] = {}
    for name, spec in chosen.items():
        on_progress(len(measured_costs), len(chosen))
        measured_costs[name] = measured(spec)
    return measured_costs


def measured(spec: RunSpec) -> Cost:
    """The cost of a spec's kind, from a run of `GRADIENTS` gradients in a temporary folder."""
    from surefoot.runs.run import run

    short = replace(spec, budget=min(spec.budget, GRADIENTS), schedule=Schedule(every=GRADIENTS // 2, per_decade=0))
    with tempfile.TemporaryDirectory(prefix="surefoot-") as name:
        folder = RunFolder(Path(name) / "run")
        begun = time.monotonic()
        result = run(short, folder)
        wall = time.monotonic() - begun
        trajectory, _ = folder.observed()
        times = folder.path / "times.jsonl"
        clock = [json.loads(line) for line in times.read_text().splitlines()] if times.exists() else []
    if result.status != "done":  # it would end as early in the study
        return Cost(wall, 0.0, 0.0, 0.0, 1.0, failure=f"{result.status}: {result.reason}")
    first, last = clock[0], clock[-1]
    before = clock[-2]
    gradients = trajectory["gradients"].tolist()
    training = (last["seconds"] - before["seconds"]) - (last["observing"] - before["observing"])
    return Cost(
        start=max(wall - last["seconds"], 0.0),
        first_observation=first["observing"],
        observation=(last["observing"] - first["observing"]) / (len(clock) - 1),
        gradient=max(training, 0.0) / (gradients[-1] - gradients[-2]),
        gradients_per_step=gradients[-1] / max(trajectory.last("step"), 1.0),
    )
