"""A run's folder: run.json, metrics.jsonl, times.jsonl and checkpoints. Reads and writes without torch."""

import gzip
import hashlib
import json
import math
import os
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from surefoot._version import __version__
from surefoot.files import write_atomically
from surefoot.runs.spec import RunSpec

Row = dict[str, float | None]
_NUMBERS = {int, float, bool, type(None)}


class DamagedError(ValueError):
    """A record that was cut off or overwritten: it is no JSON object with what belongs there."""


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
        """running, done, diverged, interrupted, failed; absent; or damaged, where run.json cannot be read."""
        known = "record" in self.__dict__ or (self.path / "run.json").exists()
        try:
            return str(self.record["status"]) if known else "absent"
        except DamagedError:
            return "damaged"

    @property
    def ended(self) -> bool:
        """Whether the run is done, with its rows, or has diverged: a second call leaves it as it is."""
        return self.status == "diverged" or self.measured() is not None

    @property
    def damaged(self) -> bool:
        """Whether its record cannot be read, or it is done and its rows are not those that it ended with."""
        return self.status == "damaged" or (self.status == "done" and self.measured() is None)

    def measured(self) -> list[Row] | None:
        """The rows of a run that is done; None of another, and where they are not those that it ended with.

        The record has their digest; of runs that were made before it did, and of watched ones, all must be readable
        and go to the end.
        """
        if self.status != "done":
            return None
        content, _ = self._content()
        rows, unread = self._read(content)
        if "metrics_sha256" in self.record:
            same = hashlib.sha256(content).hexdigest() == self.record["metrics_sha256"]
        else:
            same = not unread and bool(rows) and rows[-1].get("gradients") == self.record.get("gradients")
        return rows if same else None

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

    def digest(self, length: int | None = None) -> str:
        """SHA-256 of the first bytes of metrics.jsonl, of all if no length is given; of nothing where it is absent."""
        content = self.metrics.read_bytes() if self.metrics.exists() else b""
        return hashlib.sha256(content[:length]).hexdigest()

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
        content, notes = self._content()
        rows, unread = self._read(content)
        return rows, [*notes, *unread]

    def _content(self) -> tuple[bytes, list[str]]:
        packed = self.path / "metrics.jsonl.gz"
        try:
            live = self.metrics.exists() or not packed.exists()
            return self.metrics.read_bytes() if live else gzip.decompress(packed.read_bytes()), []
        except FileNotFoundError:
            return b"", [f"{self.path} has no metrics yet."]
        except (OSError, EOFError, zlib.error) as error:
            return b"", [f"{packed} cannot be read: {error}."]

    def _read(self, content: bytes) -> tuple[list[Row], list[str]]:
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

    DamagedError, one of them, where it holds something else; what the disk refuses (OSError) is no damage.
    """
    told = f"{path.parent} is not a {kind} folder: it has no readable {path.name}."
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(told) from None
    except ValueError:
        raise DamagedError(told) from None
    if not isinstance(record, dict) or not all(isinstance(record.get(key), type_) for key, type_ in keys.items()):
        raise DamagedError(told)
    return record
