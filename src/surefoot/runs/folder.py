"""A run's folder: run.json, metrics.jsonl, times.jsonl and checkpoints. Reads and writes without torch."""

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surefoot.files import write_atomically
from surefoot.runs.spec import RunSpec
from surefoot.runs.stored import RUN_KEYS, StoredRun, read_record
from surefoot.table import finite_or_none


@dataclass(eq=False)
class RunFolder(StoredRun):
    """One run on disk.

    `run.json` says what and how it ended; `metrics.jsonl` (or `metrics.jsonl.gz`, an archived one) holds a row per
    observation, only ever appended to, and cut back to the checkpoint when a run resumes. The record is read once:
    `forget` reads it again.
    """

    path: Path
    _record: dict[str, Any] | None = field(default=None, init=False, repr=False)
    _spec: RunSpec | None = field(default=None, init=False, repr=False)

    @property
    def name(self) -> str:
        """The folder's name, which is the run's id."""
        return self.path.name

    @property
    def place(self) -> str:
        """The folder."""
        return str(self.path)

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

    @property
    def record(self) -> dict[str, Any]:
        """The content of run.json; ValueError where the folder is not a run's."""
        if self._record is None:
            self._record = read_record(self.path / "run.json", RUN_KEYS, kind="run")
        return self._record

    @property
    def spec(self) -> RunSpec:
        """The spec that the run was made from; ValueError where only a newer surefoot can read it."""
        if self._spec is None:
            self._spec = super().spec
        return self._spec

    @property
    def status(self) -> str:
        """As of any stored run; absent where there is no run.json."""
        present = self._record is not None or (self.path / "run.json").exists()
        return super().status if present else "absent"

    def write_record(self, record: Mapping[str, Any]) -> None:
        """Replace run.json."""
        write_atomically(self.path / "run.json", (json.dumps(record, indent=1) + "\n").encode())
        self.forget()

    def forget(self) -> None:
        """Read the record again when it is asked for: another process may have written it."""
        self._record = self._spec = None

    def set_aside(self) -> None:
        """Give the rows and the record of a damaged run other names, so that it can start again and nothing is lost."""
        for path in (self.metrics, self.path / "run.json"):
            if path.exists():
                os.replace(path, path.with_name(f"{path.name}.damaged"))
        self.forget()

    def append(self, row: Mapping[str, float]) -> None:
        """Add one row to metrics.jsonl; what is not finite is stored as null."""
        clean = {key: finite_or_none(value) for key, value in row.items()}
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

    def checksum(self, length: int | None = None) -> str:
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

    def content(self) -> tuple[bytes, list[str]]:
        """The lines of metrics.jsonl, and a note where they cannot be read."""
        packed = self.path / "metrics.jsonl.gz"
        try:
            live = self.metrics.exists() or not packed.exists()
            return self.metrics.read_bytes() if live else gzip.decompress(packed.read_bytes()), []
        except FileNotFoundError:
            return b"", [f"{self.path} has no metrics yet."]
        except (OSError, EOFError, zlib.error) as error:
            return b"", [f"{packed} cannot be read: {error}."]
