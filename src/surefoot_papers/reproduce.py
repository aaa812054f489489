"""Repeat recorded runs, and compare what they measure with what is recorded, value by value.

`python -m surefoot_papers.reproduce results` repeats the shortest run of every study recorded there, in
runs/reproduced, and writes results/REPRODUCED.md. Runs that have ended there are kept: a second call continues. The
page names the studies that are left out, for example because this machine does not have their data.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from surefoot.files import write_atomically
from surefoot.runs.folder import RunFolder
from surefoot.runs.preflight import preflight
from surefoot.runs.provenance import commit, hardware, same_provenance, versions
from surefoot.runs.stored import StoredRun
from surefoot.runs.trajectory import Row
from surefoot.studies.engines import usable_cores
from surefoot.studies.engines.engine import Event, Trial
from surefoot.studies.engines.local import LocalEngine
from surefoot.studies.folder import StudyFolder
from surefoot.table import Table

_SHARES = tuple(f"{split}/{key}" for split in ("train", "test") for key in ("ece", "accuracy"))  # differ in points


@dataclass(frozen=True)
class Likeness:
    """How far the rows of two runs agree."""

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
    points: list[float] = []
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
                points.append(round(100 * abs(old - new), 12))
    steps = [row["step"] for row in recorded] == [row["step"] for row in now]
    return Likeness(steps, tuple(sorted(lost)), values, equal, max(points, default=None), relative, where)


def _apart(first: float | None, second: float | None) -> float:
    if first == second:
        return 0.0
    if first is None or second is None:
        return math.inf
    return abs(first - second) / max(abs(first), abs(second))


def shortest(folder: Path) -> StoredRun | None:
    """The run of a recorded study that took least time of those that are done and record how long they took."""
    done = [run for run in StudyFolder(folder).runs if run.measured() is not None and "seconds" in run.record]
    return min(done, key=lambda run: float(run.record["seconds"]), default=None)


def main(results: Path, scratch: Path) -> None:
    """Repeat the shortest run of every recorded study, one per core at a time, and write how far they agree.

    Args:
        results: The folder of recorded studies, in which REPRODUCED.md is written.
        scratch: Where the runs are repeated.
    """
    chosen, reasons = _choose(results)
    specs = {run.spec.id: run.spec for run in chosen.values()}  # studies may share runs
    again = {id: RunFolder(scratch.absolute() / id) for id in specs}
    trials = [
        Trial(spec, again[id].path, anew=again[id].ended and not same_provenance(again[id].record))
        for id, spec in specs.items()
    ]
    LocalEngine(usable_cores()).run(trials, on_event=_print_event)
    rows = [_row(name, run, RunFolder(scratch / run.spec.id)) for name, run in chosen.items()]
    write_atomically(results / "REPRODUCED.md", _table(rows, reasons).markdown().encode())


def _choose(results: Path) -> tuple[dict[str, StoredRun], dict[str, str]]:
    """The shortest run of every study that can be repeated here, and why the others cannot, by study and scale."""
    chosen: dict[str, StoredRun] = {}
    reasons: dict[str, str] = {}
    for path in sorted(results.glob("*/*/study.json")):
        name = f"{path.parent.parent.name}/{path.parent.name}"
        run = shortest(path.parent)
        if run is None:
            reasons[name] = "no run there is done and says how long it took"
            continue
        try:
            preflight([run.spec])
        except OSError as error:
            print(f"{name}: {error}", flush=True)
            reasons[name] = f"its data, {run.spec.data.name}, is not here"  # the page names no folder
        except ValueError as error:
            reasons[name] = str(error)
        else:
            chosen[name] = run
            print(f"{name}: {run.spec.label}, which took {run.record['seconds']:.0f} s", flush=True)
    return chosen, reasons


def _print_event(event: Event) -> None:
    if event.kind != "progress":
        print(f"{event.spec.label} ({event.spec.id}) {event.status or event.kind}", flush=True)


def _row(name: str, recorded: StoredRun, repeated: StoredRun) -> tuple[str, ...]:
    agreement = likeness(recorded.rows()[0], repeated.rows()[0])
    return (
        name,
        recorded.spec.label,
        repeated.status,
        "the same" if agreement.steps else "others",
        str(agreement.values),
        str(agreement.equal),
        "-" if agreement.points is None else f"{agreement.points:.2g}",
        "0" if agreement.relative == 0 else f"{agreement.relative:.1g} ({agreement.where})",
        ", ".join(agreement.lost) or "-",
    )


def _table(rows: Sequence[tuple[str, ...]], reasons: Mapping[str, str]) -> Table:
    packages = ", ".join(f"{key} {value}" for key, value in versions().items())
    return Table(
        name="reproduced",
        title="The shortest run of every recorded study, done again",
        columns=(
            *("results", "run", "ended", "observed at", "values", "equal to the last bit"),
            "largest difference in ECE or accuracy, points",
            "largest difference of a value, relative",
            "no longer measured",
        ),
        rows=tuple(rows),
        notes=(
            "Of one run per folder only. Values that are measured since a run was recorded are not compared.",
            "Recorded runs name their own commit and versions in their record; those here were made at "
            f"{commit()} with {packages} on {hardware()['processor']}.",
            *(f"Left out: {name}: {reason}" for name, reason in reasons.items()),
            "Command: `make reproduce`, with SUREFOOT_DATA naming the folder with CIFAR-10.",
        ),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path("runs") / "reproduced")
