"""How well the local engine keeps the cores busy, and how fast many finished runs are listed and aggregated.

1. 24 runs of the digits MLP on as many workers as there are cores: the time that the workers spent on a core, over wall
   time times workers. Other processes on the machine lower it, so the time that they had a run in hand is told beside
   it, and the load before the start.
2. A study's folder with 10,000 finished runs (one real run, copied under other seeds and methods, each value moved a
   little): seconds and peak memory of a fresh process that lists them and makes the study's tables.

Usage: python benchmarks/studies.py [--runs 10000] [--out results/benchmarks/studies.md]
"""

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _record import benchmark_parser, provenance, write_tables

from surefoot.runs.folder import RunFolder
from surefoot.runs.run import run
from surefoot.runs.spec import RunSpec
from surefoot.studies.engines import usable_cores
from surefoot.studies.engines.engine import Event, Trial
from surefoot.studies.engines.local import LocalEngine
from surefoot.table import Table

SPEC: dict[str, Any] = {
    "optimizer": {"name": "gd", "lr": 0.25},
    "budget": 500,
    "data": {"name": "digits", "num_train": 1200, "noisy_labels": 0.4},
}
NUM_METHODS = 10
AGGREGATE = """
import resource, sys, time
begun = time.perf_counter()
from pathlib import Path
from surefoot.studies.folder import StudyFolder
from surefoot.studies.study_outcome import study_outcome
outcome = study_outcome(StudyFolder(Path(sys.argv[1])))
assert outcome.num_runs == {"done": int(sys.argv[2])}, outcome.num_runs
assert len(outcome.tables[0].rows) == int(sys.argv[3])
print(time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def busy(num_runs: int = 24) -> tuple[float, float, float, float]:
    """Shares of wall time times workers: on a core, and with a run in hand; wall seconds; load before."""
    load = os.getloadavg()[0]
    num_workers = usable_cores()
    begun: dict[str, float] = {}
    in_hand = 0.0

    def note(event: Event) -> None:
        nonlocal in_hand
        if event.kind == "started":
            begun[event.spec.id] = time.perf_counter()
        elif event.kind == "ended":
            in_hand += time.perf_counter() - begun[event.spec.id]

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        specs = [RunSpec.from_dict({**SPEC, "seed": seed}) for seed in range(num_runs)]
        trials = [Trial(spec, Path(folder) / spec.id) for spec in specs]
        start = time.perf_counter()
        ended = LocalEngine(num_workers).run(trials, on_event=note)
        wall = time.perf_counter() - start
    assert all(event.status == "done" for event in ended.values())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used / (wall * num_workers), in_hand / (wall * num_workers), wall, load


def many_runs(root: Path, num_runs: int) -> None:
    """A folder of a study of methods with that many finished runs."""
    observers = {"margins": False, "curvature": False, "scores": {}}
    tree = {**SPEC, "budget": 40, "observers": observers, "schedule": {"every": 40, "per_decade": 0}}
    real = RunFolder(root / "real")
    run(RunSpec.from_dict(tree), real)
    record, (rows, _) = real.record, real.rows()
    names: dict[str, str] = {}
    draw = random.Random(0)
    for number in range(num_runs):
        seed, method = divmod(number, NUM_METHODS)
        optimizer = {"name": "sgd", "lr": 0.25, "momentum": method / NUM_METHODS}
        spec = RunSpec.from_dict({**tree, "seed": seed, "optimizer": optimizer})
        names[spec.id] = spec.label
        folder = root / "runs" / spec.id
        folder.mkdir(parents=True)
        moved = [{k: v if "/" not in k else v + 0.01 * draw.random() for k, v in row.items()} for row in rows]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in moved))
        changed = {"id": spec.id, "label": spec.label, "seed": seed, "spec": spec.to_dict()}
        changed["metrics_sha256"] = RunFolder(folder).checksum()
        (folder / "run.json").write_text(json.dumps({**record, **changed}, indent=1))
    about = {"study": "many", "scale": "one", "title": "Many?", "about": "", "outcome": "methods", "runs": names}
    (root / "study.json").write_text(json.dumps(about))


def aggregate(num_runs: int) -> tuple[float, float, float]:
    """Seconds and peak MB of a fresh process that makes the tables of that many runs; load of the machine before."""
    with tempfile.TemporaryDirectory() as name:
        many_runs(Path(name), num_runs)
        load = os.getloadavg()[0]
        command = [sys.executable, "-c", AGGREGATE, name, str(num_runs), str(NUM_METHODS)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds, megabytes = map(float, output.split())
    return seconds, megabytes, load


def main() -> None:
    parser = benchmark_parser(__file__)
    parser.add_argument("--runs", type=int, default=10_000)
    arguments = parser.parse_args()
    seconds, megabytes, load = aggregate(arguments.runs)
    share, in_hand, wall, load_then = busy()
    rows = (
        (f"{arguments.runs} finished runs listed and aggregated, s", seconds, "5", load),
        ("the same, peak MB", megabytes, "500", load),
        (f"24 runs on {usable_cores()} workers, share of the cores' time used", share, "0.9", load_then),
        ("the same, share of the time with a run in hand", in_hand, "0.9", load_then),
        ("the same, wall s", wall, "-", load_then),
    )
    made = provenance(f"python benchmarks/studies.py --runs {arguments.runs}", one_thread=False)
    table = Table("studies", "Studies", ("what", "measured (n = 1)", "bar", "load before"), rows, (made,))
    write_tables(arguments.out, table)


if __name__ == "__main__":
    main()
