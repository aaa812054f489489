"""Do recorded runs again, and compare what they measure with what is recorded, value by value.

`python -m surefoot_papers.reproduce results` does the shortest run of every study recorded there again, in
runs/reproduced, and writes results/REPRODUCED.md. What has ended there is kept: a second call goes on. Runs whose data
this machine does not have are left out, and said.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from surefoot.files import write_atomically
from surefoot.runs.folder import RunFolder
from surefoot.runs.preflight import preflight
from surefoot.runs.provenance import commit, hardware, same_provenance, versions
from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Row
from surefoot.studies.engines import usable_cores
from surefoot.studies.engines.engine import Event, Trial
from surefoot.studies.engines.local import LocalEngine
from surefoot.studies.outcome import study_runs
from surefoot.table import Table

_SHARES = tuple(f"{split}/{key}" for split in ("train", "test") for key in ("ece", "accuracy"))  # differ in points


@dataclass(frozen=True)
class Likeness:
    """How far two runs' rows agree."""

    steps: bool  # whether both were observed at the same steps
    lost: tuple[str, ...]  # recorded and not measured any more
    values: int
    equal: int  # to the last bit
    points: float | None  # the largest difference in ECE or accuracy, in points of a hundred; None where none is there
    relative: float  # the largest difference of any value, over the larger of the two
    where: str  # the name of that value and its step


def likeness(recorded: Sequence[Row], now: Sequence[Row]) -> Likeness:
    """Compare the values that were recorded with those of the same steps now; what is measured since is left out.

    >>> likeness([{"step": 0, "test/ece": 0.25, "loss": 2.0}], [{"step": 0, "test/ece": 0.26, "loss": 2.0, "new": 1.0}])
    Likeness(steps=True, lost=(), values=2, equal=1, points=1.0, relative=0.0384..., where='test/ece at step 0')
    """
    lost: set[str] = set()
    values = equal = 0
    points: float | None = None
    relative, where = 0.0, "-"
    again = {row["step"]: row for row in now}
    pairs = [(row, again[row["step"]]) for row in recorded if row["step"] in again]
    for before, after in pairs:
        lost |= before.keys() - after.keys()
        for key in (key for key in before if key in after and key not in ("step", "gradients")):
            apart = _apart(before[key], after[key])
            values += 1
            equal += before[key] == after[key]
            if apart > relative:
                relative, where = apart, f"{key} at step {before['step']}"
            old, new = before[key], after[key]
            if key in _SHARES and old is not None and new is not None:
                points = max(points or 0.0, round(100 * abs(old - new), 12))
    steps = [row["step"] for row in recorded] == [row["step"] for row in now]
    return Likeness(steps, tuple(sorted(lost)), values, equal, points, relative, where)


def _apart(first: float | None, second: float | None) -> float:
    if first == second:
        return 0.0
    if first is None or second is None:
        return math.inf
    return abs(first - second) / max(abs(first), abs(second))


def shortest(folder: Path) -> RunFolder | None:
    """The run of a recorded study that took least time of those that are done and say how long they took."""
    done = [run for run in study_runs(folder) if run.ended and run.status == "done" and "seconds" in run.record]
    return min(done, key=lambda run: float(run.record["seconds"]), default=None)


def _trial(spec: RunSpec, folder: RunFolder) -> Trial:
    """A recorded run, to be done in that folder; what has ended there, by this code, is left as it is."""
    return Trial(spec, folder.path, anew=folder.ended and not same_provenance(folder.record))


def _tell(event: Event) -> None:
    if event.kind != "progress":
        print(f"{event.spec.label} ({event.spec.id}) {event.status or event.kind}", flush=True)


def _row(name: str, recorded: RunFolder, made: RunFolder) -> tuple[str, ...]:
    found = likeness(recorded.rows()[0], made.rows()[0])
    steps = "the same" if found.steps else "others"
    return (
        name,
        recorded.spec.label,
        made.status,
        steps,
        str(found.values),
        str(found.equal),
        "-" if found.points is None else f"{found.points:.2g}",
        "0" if found.relative == 0 else f"{found.relative:.1g} ({found.where})",
        ", ".join(found.lost) or "-",
    )


def main(results: Path, scratch: Path) -> None:
    """Do the shortest run of every recorded study again, one per core at a time, and write what agrees."""
    found: dict[str, RunFolder] = {}
    left: list[str] = []
    for path in sorted(results.glob("*/*/study.json")):
        name = f"{path.parent.parent.name}/{path.parent.name}"
        recorded = shortest(path.parent)
        if recorded is None:
            left.append(f"{name}: no run there is done and says how long it took")
            continue
        try:
            preflight([recorded.spec])
        except OSError as error:
            print(f"{name}: {error}", flush=True)
            left.append(f"{name}: its data, {recorded.spec.data.name}, is not here")  # the page names no folder
        except ValueError as error:
            left.append(f"{name}: {error}")
        else:
            found[name] = recorded
            print(f"{name}: {recorded.spec.label}, which took {recorded.record['seconds']:.0f} s", flush=True)
    specs = {recorded.spec.id: recorded.spec for recorded in found.values()}  # studies may share runs
    trials = [_trial(spec, RunFolder(scratch.absolute() / run)) for run, spec in specs.items()]
    LocalEngine(usable_cores()).run(trials, on_event=_tell)
    rows = [_row(name, recorded, RunFolder(scratch / recorded.spec.id)) for name, recorded in found.items()]
    by = ", ".join(f"{key} {value}" for key, value in versions().items())
    table = Table(
        name="reproduced",
        title="The shortest run of every recorded study, done again",
        columns=(
            "results",
            "run",
            "ended",
            "observed at",
            "values",
            "equal to the last bit",
            "largest difference in ECE or accuracy, points",
            "largest difference of a value, relative",
            "no longer measured",
        ),
        rows=tuple(rows),
        notes=(
            "Of one run per folder only. Values that are measured since a run was recorded are not compared.",
            "Recorded runs name their own commit and versions in run.json; those here were made at "
            f"{commit()} with {by} on {hardware()['processor']}.",
            *(f"Left out: {reason}" for reason in left),
            "Command: `make reproduce`, with SUREFOOT_DATA naming the folder with CIFAR-10.",
        ),
    )
    write_atomically(results / "REPRODUCED.md", table.markdown().encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path("runs") / "reproduced")
