"""A study's runs in two files, for keeping: their records, and all their rows, compressed.

`runs.jsonl` has a line per run, what its run.json holds. `rows.jsonl.gz` has a line per observation of any run, with
the run's id before what its metrics.jsonl holds, so that a table can be made of it as it is.
"""

import gzip
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefoot.files import write_atomically
from surefoot.runs.stored import RUN_KEYS, DamagedError, StoredRun, has_keys

RECORDS, ROWS = "runs.jsonl", "rows.jsonl.gz"


@dataclass(frozen=True, eq=False)
class ArchivedRun(StoredRun):
    """One run of an archive."""

    archive: Path
    _record: dict[str, Any]
    _content: bytes
    _notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The run's id."""
        return str(self._record["id"])

    @property
    def place(self) -> str:
        """The archive and the run's id."""
        return f"{self.archive}/{self.name}"

    @property
    def record(self) -> dict[str, Any]:
        """What its run.json held."""
        return self._record

    def content(self) -> tuple[bytes, list[str]]:
        """The lines of its rows, byte by byte as its metrics.jsonl held them."""
        return self._content, list(self._notes)


def is_archive(folder: Path) -> bool:
    """Whether a study's folder keeps its runs as an archive."""
    return (folder / RECORDS).exists()


def write_archive(runs: Iterable[StoredRun], folder: Path) -> None:
    """Write the records and rows of runs to a folder, in their order; the same runs give the same bytes."""
    records, lines = [], []
    for run in runs:
        records.append(json.dumps(run.record) + "\n")
        content, _ = run.content()
        lines += [_prefix(run.name) + line[1:] for line in content.splitlines(keepends=True)]
    write_atomically(folder / ROWS, gzip.compress(b"".join(lines), mtime=0))
    write_atomically(folder / RECORDS, "".join(records).encode())


def read_archive(folder: Path) -> list[ArchivedRun]:
    """The runs of an archive, in its order; DamagedError, a ValueError, where its records cannot be read.

    Rows that cannot be read belong to no run, so that the runs that they are of are damaged.
    """
    content, notes = _rows(folder / ROWS)
    by_run: dict[bytes, list[bytes]] = {}
    for line in content.splitlines(keepends=True):
        name = line[9:21]  # {"run": "0123456789ab", ...
        if line.startswith(_prefix(name.decode(errors="replace"))):
            by_run.setdefault(name, []).append(b"{" + line[len(_prefix(name.decode())) :])
    runs = []
    for number, text in enumerate((folder / RECORDS).read_text(encoding="utf-8").splitlines(), start=1):
        try:
            record = json.loads(text)
        except ValueError:
            record = None
        if not has_keys(record, RUN_KEYS):
            raise DamagedError(f"Line {number} of {folder / RECORDS} is not the record of a run.")
        runs.append(ArchivedRun(folder, record, b"".join(by_run.get(record["id"].encode(), [])), notes))
    return runs


def _prefix(name: str) -> bytes:
    return b'{"run": "' + name.encode() + b'", '


def _rows(path: Path) -> tuple[bytes, tuple[str, ...]]:
    try:
        return gzip.decompress(path.read_bytes()), ()
    except (OSError, EOFError, zlib.error) as error:
        return b"", (f"{path} cannot be read: {error}.",)
