"""What the committed results say about the effect of a change, as numbers that a diagnosis can cite.

`python -m surefoot.diagnosis.evidence results` reads the rows of the archived runs and writes evidence.json beside this
file, which is what an installed surefoot knows.
"""

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

from surefoot.files import write_atomically
from surefoot.runs.folder import RunFolder
from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Row

_STUDIES = ("coupling/digits", "coupling/cifar-small", "interventions/digits")
_KEYS = ("test/ece", "test/accuracy", "test/confidence", "train/margin_min")

Run = tuple[RunSpec, list[Row]]


@dataclass(frozen=True)
class Effect:
    """A mean change with its 95 % t-interval over n pairs of runs, or over all runs of two kinds."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"

    @property
    def decided(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Evidence:
    """What came of one change to runs of one optimizer, in one study; all runs end overconfident on test samples."""

    kind: Literal["stop", "optimizer"]
    change: str  # in words, as something to do
    optimizer: str  # of the runs that were changed
    to: str  # the optimizer with its options after the change
    ece: Effect  # of test ECE
    accuracy: Effect  # of test accuracy
    n: int  # pairs, or runs with the change
    how: str
    source: str  # folder below results/


def evidence() -> tuple[Evidence, ...]:
    """All that this version of surefoot knows."""
    text = files("surefoot.diagnosis").joinpath("evidence.json").read_text(encoding="utf-8")
    return tuple(
        Evidence(**{**item, "ece": Effect(**item["ece"]), "accuracy": Effect(**item["accuracy"])})
        for item in json.loads(text)
    )


def gather(results: Path) -> list[Evidence]:
    """The evidence in a folder of archived studies, from the rows of their runs."""
    found: list[Evidence] = []
    for name in _STUDIES:
        runs = _runs(results / name)
        found += [*_other_optimizers(runs, source=name), *_stopping(runs, source=name)]
    return found


def _runs(folder: Path) -> list[Run]:
    runs = [RunFolder(path) for path in sorted((folder / "runs").iterdir())]
    held = [(run.spec, rows) for run in runs if (rows := run.measured()) is not None]
    whole = [(spec, rows) for spec, rows in held if rows and all(rows[-1].get(key) is not None for key in _KEYS)]
    # a change that lowers an overconfident model's error would raise an underconfident one's: these are kept apart
    return [run for run in whole if (run[1][-1]["test/confidence"] or 0) > (run[1][-1]["test/accuracy"] or 0)]


def _other_optimizers(runs: Sequence[Run], *, source: str) -> Iterator[Evidence]:
    variants = sorted({spec.variant for spec, _ in runs})
    for base in (name for name in variants if " " not in name):  # plain ones, without options
        for other in variants:
            if other == base:
                continue
            ece, accuracy = (_difference(runs, base, other, key) for key in _KEYS[:2])
            if ece and accuracy:
                change = f"train with {other} in place of {base}"
                effects = _rounded(ece[0]), _rounded(accuracy[0])
                yield Evidence("optimizer", change, base, other, *effects, ece[1], ece[2], source)


def _difference(runs: Sequence[Run], base: str, other: str, key: str) -> tuple[Effect, int, str] | None:
    """Between runs of the same learning rate and seed where each of the others has such a partner, else of means.

    None where the two did not train equally long, or, at learning rates of their own, did not fit the training samples
    as often: what ends sooner, or fits less, is less sure for that alone.
    """
    length, others = (
        {(str(spec.batch_size), rows[-1]["step"]) for spec, rows in runs if spec.variant == variant}
        for variant in (base, other)
    )
    if length != others:
        return None
    old, new = (
        {
            (spec.optimizer.options.get("lr"), spec.seed, str(spec.batch_size)): float(rows[-1][key] or 0)
            for spec, rows in runs
            if spec.variant == variant
        }
        for variant in (base, other)
    )
    if new.keys() <= old.keys():
        effect = _t_interval([new[at] - old[at] for at in new])
        how = f"{len(new)} pairs of the same learning rate and seed, after as many steps"
        return None if effect is None else (effect, len(new), how)
    first, second = _t_interval(list(old.values())), _t_interval(list(new.values()))
    if first is None or second is None or _share_that_fits(runs, base) != _share_that_fits(runs, other):
        return None
    # the two half-widths added in squares: Welch's interval without its fractional degrees of freedom, a little wider
    mean = second.mean - first.mean
    half = math.hypot(second.high - second.mean, first.high - first.mean)
    how = f"{len(new)} runs against {len(old)} at learning rates of their own, after as many steps"
    return Effect(mean, mean - half, mean + half), len(new), how


def _share_that_fits(runs: Sequence[Run], variant: str) -> float:
    """Of the runs of an optimizer those that end with every training sample right."""
    ends = [(rows[-1]["train/margin_min"] or 0) > 0 for spec, rows in runs if spec.variant == variant]
    return sum(ends) / len(ends)


def _stopping(runs: Sequence[Run], *, source: str) -> Iterator[Evidence]:
    """Ending at the first observed step with every training sample right, in runs that go on after it."""
    for name in sorted({spec.optimizer.name for spec, _ in runs}):
        gaps: dict[str, list[float]] = {key: [] for key in _KEYS[:2]}
        for spec, rows in runs:
            reached = next((row for row in rows if (row.get("train/margin_min") or 0) > 0), None)
            if spec.optimizer.name == name and reached is not None and reached is not rows[-1]:
                for key, values in gaps.items():
                    values.append(float(reached[key] or 0) - float(rows[-1][key] or 0))
        ece, accuracy = (_t_interval(values) for values in gaps.values())
        if ece and accuracy:
            n = len(gaps["test/ece"])
            how = f"{n} runs, the step at which every training sample is right against the last"
            change = "stop when every training sample is right"
            yield Evidence("stop", change, name, name, _rounded(ece), _rounded(accuracy), n, how, source)


def _t_interval(values: Sequence[float]) -> Effect | None:
    from scipy.special import stdtrit

    n = len(values)
    if n < 2:
        return None
    mean = math.fsum(values) / n
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = float(stdtrit(n - 1, 0.975)) * deviation / math.sqrt(n)
    return Effect(mean, mean - half, mean + half)


def _rounded(effect: Effect) -> Effect:
    cut: Callable[[float], float] = lambda value: round(value, 6)  # noqa: E731 (the last bits differ between machines)
    return Effect(cut(effect.mean), cut(effect.low), cut(effect.high))


if __name__ == "__main__":
    target = Path(__file__).with_name("evidence.json")
    content = [asdict(item) for item in gather(Path(sys.argv[1]))]
    write_atomically(target, (json.dumps(content, indent=1) + "\n").encode())
