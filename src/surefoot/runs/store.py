"""A run's folder: run.json, metrics.jsonl, times.jsonl and checkpoints. Reads and writes without torch."""

import gzip
import json
import math
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from surefoot import __version__
from surefoot.files import write_atomically
from surefoot.runs.spec import RunSpec

Row = dict[str, float | None]
_NUMBERS = {int, float, bool, type(None)}


class DamagedError(ValueError):
    """A record that was cut off or overwritten: it holds no JSON."""


@dataclass(frozen=True)
class RunFolder:
    """One run on disk.

    `run.json` says what and how it ended; `metrics.jsonl` (or `metrics.jsonl.gz`, an archived one) holds a row per
    observation, only ever appended to, and cut back to the checkpoint when a run resumes.
    """

    path: Path

    @property
    def checkpoint(self) -> Path:
        """Where the training's state is saved."""
        return self.path / "checkpoint.safetensors"

    @property
    def previous(self) -> Path:
        """The checkpoint before that one, kept while the run goes on."""
        return self.path / "checkpoint.previous.safetensors"

    @property
    def selected(self) -> Path:
        """Where the state at the lowest validation NLL is saved, if the spec asks for it."""
        return self.path / "selected.safetensors"

    @property
    def metrics(self) -> Path:
        """Where the rows are."""
        return self.path / "metrics.jsonl"

    @cached_property
    def record(self) -> dict[str, Any]:
        """The content of run.json; ValueError where the folder is not a run's."""
        keys = {"id": str, "label": str, "status": str, "spec": dict}
        return read_record(self.path / "run.json", keys, kind="run")

    @property
    def status(self) -> str:
        """running, done, diverged, interrupted, failed; absent; or damaged, where run.json holds no JSON."""
        known = "record" in self.__dict__ or (self.path / "run.json").exists()
        try:
            return str(self.record["status"]) if known else "absent"
        except DamagedError:
            return "damaged"

    @property
    def ended(self) -> bool:
        """Whether the run is done, with its last row, or has diverged: a second call leaves it as it is."""
        return self.status == "diverged" or (self.status == "done" and self.ends_with(self.rows()[0]))

    def ends_with(self, rows: Sequence[Row]) -> bool:
        """Whether these rows, of this run, go to its end."""
        return bool(rows) and rows[-1].get("gradients") == self.record.get("gradients")

    @cached_property
    def spec(self) -> RunSpec:
        """The spec that the run was made from; ValueError where only a newer surefoot can read it."""
        try:
            return RunSpec.from_dict(self.record["spec"])
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}{newer(self.record.get('versions'))}") from None

    def write_record(self, record: Mapping[str, Any]) -> None:
        """Replace run.json."""
        write_atomically(self.path / "run.json", (json.dumps(record, indent=1) + "\n").encode())
        self.forget()

    def forget(self) -> None:
        """Read the record again when it is asked for: another process may have written it."""
        self.__dict__.pop("record", None)
        self.__dict__.pop("spec", None)

    def set_aside(self) -> None:
        """Give the rows and the record of a damaged run other names, so that it can start again and nothing is lost."""
        for path in (self.metrics, self.path / "run.json"):
            if path.exists():
                os.replace(path, path.with_name(f"{path.name}.damaged"))
        self.forget()

    def append(self, row: Mapping[str, float]) -> None:
        """Add one row to metrics.jsonl; what is not finite is stored as null."""
        clean = {key: value if math.isfinite(value) else None for key, value in row.items()}
        self.append_line(self.metrics, clean)

    def append_line(self, path: Path, content: Mapping[str, Any]) -> None:
        """Add one line of JSON to a file, in one write."""
        with path.open("ab") as file:
            file.write((json.dumps(content) + "\n").encode())

    def sync(self) -> int:
        """Force metrics.jsonl to disk; returns its length in bytes."""
        with self.metrics.open("ab") as file:
            os.fsync(file.fileno())
            return file.tell()

    def cut(self, path: Path, length: int) -> bool:
        """Drop what a file holds beyond `length` bytes; False if it is shorter than that."""
        present = path.stat().st_size if path.exists() else 0
        if present < length:
            return False
        with path.open("ab") as file:
            file.truncate(length)
        return True

    def rows(self) -> tuple[list[Row], list[str]]:
        """All rows, and a note for every line that could not be read (a half-written last one is not fatal)."""
        packed = self.path / "metrics.jsonl.gz"
        try:
            live = self.metrics.exists() or not packed.exists()
            content = self.metrics.read_bytes() if live else gzip.decompress(packed.read_bytes())
        except FileNotFoundError:
            return [], [f"{self.path} has no metrics yet."]
        except (OSError, EOFError, zlib.error) as error:
            return [], [f"{packed} cannot be read: {error}."]
        rows: list[Row] = []
        notes: list[str] = []
        for number, line in enumerate(content.splitlines(), start=1):
            try:
                row = json.loads(line)
                if not isinstance(row, dict) or "step" not in row or not _NUMBERS.issuperset(map(type, row.values())):
                    raise ValueError("no step, or a value that is no number")
                rows.append(row)
            except ValueError:
                notes.append(f"Line {number} of {self.metrics} is not a row of metrics and was skipped.")
        return rows, notes

    def archive(self, target: Path) -> None:
        """Copy run.json and the compressed rows to `target`: all that tables and pages need."""
        target.mkdir(parents=True, exist_ok=True)
        write_atomically(target / "run.json", (self.path / "run.json").read_bytes())
        packed = self.path / "metrics.jsonl.gz"
        if self.metrics.exists():
            write_atomically(target / packed.name, gzip.compress(self.metrics.read_bytes(), mtime=0))
        elif packed.exists():
            write_atomically(target / packed.name, packed.read_bytes())


def newer(versions: Any) -> str:
    """A sentence to add to an error where a record was made by a newer surefoot than this one; else nothing.

    >>> newer({"surefoot": "99.1.0"})[:36], newer({"surefoot": "0.0.1"})
    (' It was made by surefoot 99.1.0, and', '')
    """
    made = str(versions.get("surefoot", "")) if isinstance(versions, Mapping) else ""
    numbers = [tuple(int(part) for part in re.findall(r"\d+", text)[:3]) for text in (made, __version__)]
    return f" It was made by surefoot {made}, and this is {__version__}: upgrade." if numbers[0] > numbers[1] else ""


def read_record(path: Path, keys: Mapping[str, type], *, kind: str) -> dict[str, Any]:
    """A JSON object with at least `keys` of their types; ValueError where the file is missing or something else.

    DamagedError, one of them, where it holds no JSON; what the disk refuses (OSError) is no damage.
    """
    told = f"{path.parent} is not a {kind} folder: it has no readable {path.name}."
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(told) from None
    except ValueError:
        raise DamagedError(told) from None
    if not isinstance(record, dict) or not all(isinstance(record.get(key), type_) for key, type_ in keys.items()):
        raise ValueError(told)
    return record
