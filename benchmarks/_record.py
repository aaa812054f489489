"""What every benchmark does at its ends: read its options, and write its tables with their provenance."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from surefoot.files import write_atomically
from surefoot.runs.provenance import commit, hardware, versions
from surefoot.table import Table


def benchmark_parser(file: str) -> argparse.ArgumentParser:
    """A parser with `--out`, by default the benchmark's own file in results/benchmarks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path(f"results/benchmarks/{Path(file).stem}.md"))
    return parser


def provenance(command: str, *, seeds: int | None = None, peers: Sequence[str] = (), one_thread: bool = True) -> str:
    """Name the command, the commit, all versions and the hardware, for the notes under a table."""
    parts = [f"`{command}`"]
    if seeds is not None:
        parts.append(f"seeds 0 to {seeds - 1}")
    parts += [f"commit {commit()}", *(f"{name} {version}" for name, version in versions().items()), *peers]
    parts += [f"{hardware()['processor']}", f"{hardware()['cores']} cores"]
    return ", ".join([*parts, "one thread"] if one_thread else parts) + "."


def write_tables(path: Path, *tables: Table) -> None:
    """Write the tables as Markdown, one after the other, and print them."""
    text = "\n".join(table.markdown() for table in tables)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())
    print(text)
