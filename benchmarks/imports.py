"""What importing surefoot costs beyond importing torch: processor seconds, each part in processes of its own.

`import surefoot` itself imports nothing else, so the parts that a training script uses are measured too. A process
imports torch and then one part; what is counted is the time of the second import, that of other packages it needs
included.

Usage: python benchmarks/imports.py [--repeats 9] [--out results/benchmarks/imports.md]
"""

import statistics
import subprocess
import sys

from _record import benchmark_parser, provenance, write_tables

from surefoot.table import Cell, Table

BAR = 0.15
WHOLE = "surefoot.runs.run"  # nearly all of surefoot: no training loop of a user's own needs it
PARTS = (
    "surefoot",
    "surefoot.predictions",
    "surefoot.metrics",
    "surefoot.losses",
    "surefoot.optim",
    "surefoot.curvature",
    "surefoot.posthoc",
    "surefoot.theory",
    "surefoot.ensembles",
    "surefoot.models",
    "surefoot.data",
    "surefoot.training",
    WHOLE,
    "surefoot.integrations.calibrated",
    "surefoot.integrations.frames",
)


def seconds(part: str) -> tuple[float, float]:
    """Processor seconds that torch and, after it, the part take to import, in a process of their own."""
    clock = "time.process_time()"
    code = f"import time; a = {clock}; import torch; b = {clock}; import {part}; print(b - a, {clock} - b)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second = map(float, done.stdout.split())
    return first, second


def main() -> None:
    parser = benchmark_parser(__file__)
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    alone: list[float] = []
    beyond: dict[str, list[float]] = {part: [] for part in PARTS}
    for turn in range(-1, arguments.repeats):
        for part in PARTS:
            first, second = seconds(part)
            if turn >= 0:  # the first round compiles the files and brings them into the disk's cache
                alone.append(first)
                beyond[part].append(second)
    rows: list[tuple[Cell, ...]] = []
    for part, times in beyond.items():
        median = statistics.median(times)
        print(f"{part}: {median:.3f}", flush=True)
        bar, within = ("-", "-") if part == WHOLE else (f"{BAR:g}", "yes" if median <= BAR else "no")
        rows.append((part, f"{median:.3f}", f"{min(times):.3f} to {max(times):.3f}", bar, within, len(times)))
    table = Table(
        name="imports",
        title="Processor seconds of an import beyond `import torch`",
        columns=("module", "median", "range", "bar", "within", "n"),
        rows=tuple(rows),
        notes=(
            f"`import torch` alone: {statistics.median(alone):.2f} s ({min(alone):.2f} to {max(alone):.2f}), n = "
            f"{len(alone)}. Files compiled and in the cache.",
            provenance(f"python benchmarks/imports.py --repeats {arguments.repeats}", one_thread=False),
        ),
    )
    write_tables(arguments.out, table)


if __name__ == "__main__":
    main()
