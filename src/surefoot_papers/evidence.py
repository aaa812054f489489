"""Gather what the committed results say about the effect of a change, for the diagnoses of surefoot to cite.

`python -m surefoot_papers.evidence results` reads the runs of the recorded studies and writes the evidence.json of
surefoot.diagnosis, which is what an installed surefoot knows.
"""

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from surefoot.diagnosis.evidence import Effect, Evidence
from surefoot.files import write_atomically
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.folder import StudyFolder
from surefoot.studies.intervals import t_interval

_STUDIES = ("coupling/digits", "coupling/cifar-small", "interventions/digits")
_EFFECTS = ("test/ece", "test/accuracy")
_NEEDED = (*_EFFECTS, "test/confidence", "train/margin_min")
_DIGITS = 6  # the last bits differ between machines


def gather(results: Path) -> list[Evidence]:
    """The evidence in a folder of recorded studies, from what their runs measured."""
    items: list[Evidence] = []
    for name in _STUDIES:
        runs = _overconfident(StudyFolder(results / name).trajectories)
        items += [*_other_optimizers(runs, source=name), *_stopping(runs, source=name)]
    return items


def _overconfident(runs: Sequence[Trajectory]) -> list[Trajectory]:
    """The runs that end with confidence above accuracy.

    A change that lowers an overconfident model's error would raise an underconfident one's: these are kept apart.
    """
    whole = [run for run in runs if all(math.isfinite(run.last(key)) for key in _NEEDED)]
    return [run for run in whole if run.last("test/confidence") > run.last("test/accuracy")]


def _other_optimizers(runs: Sequence[Trajectory], *, source: str) -> Iterator[Evidence]:
    variants = sorted({run.spec.variant for run in runs})
    for base in (name for name in variants if " " not in name):  # plain ones, without options
        for other in (name for name in variants if name != base):
            ece, accuracy = (_difference(runs, base, other, key) for key in _EFFECTS)
            if ece and accuracy:
                change = f"train with {other} in place of {base}"
                effects = _rounded(ece[0]), _rounded(accuracy[0])
                yield Evidence("optimizer", change, base, other, *effects, ece[1], ece[2], source)


def _difference(runs: Sequence[Trajectory], base: str, other: str, key: str) -> tuple[Effect, int, str] | None:
    """Between runs of the same learning rate and seed where each of the others has such a partner, else of means.

    None where the two did not train equally long, or, at learning rates of their own, did not fit the training samples
    as often: what ends sooner, or fits less, is less confident for that alone.
    """
    groups = [[run for run in runs if run.spec.variant == variant] for variant in (base, other)]
    length, others = ({(str(run.spec.batch_size), int(run.steps[-1])) for run in group} for group in groups)
    if length != others:
        return None
    old, new = ({(run.lr, run.spec.seed, str(run.spec.batch_size)): run.last(key) for run in group} for group in groups)
    if new.keys() <= old.keys():
        effect = _effect([new[setting] - old[setting] for setting in new])
        how = f"{len(new)} pairs of the same learning rate and seed, after as many steps"
        return None if effect is None else (effect, len(new), how)
    first, second = _effect(list(old.values())), _effect(list(new.values()))
    if first is None or second is None or _share_that_fits(groups[0]) != _share_that_fits(groups[1]):
        return None
    # the two half-widths added in squares: Welch's interval without its fractional degrees of freedom, a little wider
    mean = second.mean - first.mean
    half = math.hypot(second.high - second.mean, first.high - first.mean)
    how = f"{len(new)} runs against {len(old)} at learning rates of their own, after as many steps"
    return Effect(mean, mean - half, mean + half), len(new), how


def _share_that_fits(runs: Sequence[Trajectory]) -> float:
    """The share of the runs that end with every training sample right."""
    return sum(run.last("train/margin_min") > 0 for run in runs) / len(runs)


def _stopping(runs: Sequence[Trajectory], *, source: str) -> Iterator[Evidence]:
    """Ending at the first observed step with every training sample right, in runs that go on after it."""
    for name in sorted({run.optimizer for run in runs}):
        each = [_change_by_stopping(run) for run in runs if run.optimizer == name]
        changes = [gaps for gaps in each if gaps is not None]
        ece, accuracy = (_effect([gaps[key] for gaps in changes]) for key in _EFFECTS)
        if ece and accuracy:
            how = f"{len(changes)} runs, the step at which every training sample is right against the last"
            change = "stop when every training sample is right"
            yield Evidence("stop", change, name, name, _rounded(ece), _rounded(accuracy), len(changes), how, source)


def _change_by_stopping(run: Trajectory) -> dict[str, float] | None:
    """What a run has at that step less what it ends with; None where it ends there, or never gets there."""
    reached = np.flatnonzero(run["train/margin_min"] > 0)
    if not len(reached) or reached[0] == len(run) - 1:
        return None
    gaps = {key: float(run[key][reached[0]]) - run.last(key) for key in _EFFECTS}
    return gaps if all(map(math.isfinite, gaps.values())) else None


def _effect(values: Sequence[float]) -> Effect | None:
    interval = t_interval(values)
    return None if interval is None else Effect(sum(values) / len(values), *interval)


def _rounded(effect: Effect) -> Effect:
    return Effect(*(round(value, _DIGITS) for value in (effect.mean, effect.low, effect.high)))


if __name__ == "__main__":
    content = [asdict(item) for item in gather(Path(sys.argv[1]))]
    with as_file(files("surefoot.diagnosis") / "evidence.json") as target:
        write_atomically(target, (json.dumps(content, indent=1) + "\n").encode())
