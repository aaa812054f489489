"""A run that is on disk, in a folder of its own or in a study's archive: its record and its rows. Needs no torch."""

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surefoot._version import __version__
from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Row, Trajectory

RUN_KEYS: dict[str, type] = {"id": str, "label": str, "status": str, "spec": dict}  # that every record of a run has
_NUMBERS = {int, float, bool, type(None)}


class DamagedError(ValueError):
    """A record that was cut off or overwritten: it is no JSON object with what belongs there."""


class StoredRun(ABC):
    """A run on disk, as tables, pages and comparisons read it."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The run's id, which is that of its spec."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Where it is, for people."""

    @property
    @abstractmethod
    def record(self) -> dict[str, Any]:
        """What was run and how it ended; DamagedError, a ValueError, where that cannot be read."""

    @abstractmethod
    def content(self) -> tuple[bytes, list[str]]:
        """The lines of its rows, and a note where they cannot be read."""

    @property
    def status(self) -> str:
        """running, done, diverged, interrupted, failed; or damaged, where its record cannot be read."""
        try:
            return str(self.record["status"])
        except DamagedError:
            return "damaged"

    @property
    def reason(self) -> str:
        """Why it ended as it did, where its record says so."""
        return str(self.record.get("reason", ""))

    @property
    def ended(self) -> bool:
        """Whether the run is done, with its rows, or has diverged: a second call leaves it as it is."""
        return self.status == "diverged" or self.measured() is not None

    @property
    def damaged(self) -> bool:
        """Whether its record cannot be read, or it is done and its rows are not those that it ended with."""
        return self.status == "damaged" or (self.status == "done" and self.measured() is None)

    @property
    def spec(self) -> RunSpec:
        """The spec that the run was made from; ValueError where only a newer surefoot can read it."""
        try:
            return RunSpec.from_dict(self.record["spec"])
        except ValueError as error:
            raise ValueError(f"{self.place}: {error}{newer(self.record.get('versions'))}") from None

    def measured(self) -> list[Row] | None:
        """The rows of a run that is done; None of another, and where they are not those that it ended with.

        The record has their checksum; of runs that were made before it did, and of watched ones, all must be readable
        and go to the end.
        """
        if self.status != "done":
            return None
        content, _ = self.content()
        rows, unread = self._read(content)
        if "metrics_sha256" in self.record:
            same = hashlib.sha256(content).hexdigest() == self.record["metrics_sha256"]
        else:
            same = not unread and bool(rows) and rows[-1].get("gradients") == self.record.get("gradients")
        return rows if same else None

    def rows(self) -> tuple[list[Row], list[str]]:
        """All rows, and a note for every line that could not be read (a half-written last one is not fatal)."""
        content, notes = self.content()
        rows, unread = self._read(content)
        return rows, [*notes, *unread]

    def observed(self) -> tuple[Trajectory, list[str]]:
        """What the run has measured so far, and a note for every line that could not be read."""
        rows, notes = self.rows()
        return Trajectory.of(self.spec, rows), notes

    def measured_trajectory(self) -> Trajectory | None:
        """What a run that is done measured; None where `measured` is."""
        rows = self.measured()
        return None if rows is None else Trajectory.of(self.spec, rows)

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
                notes.append(f"Line {number} of {self.place}/metrics.jsonl is not a row of metrics and was skipped.")
        return rows, notes


def newer(versions: Any) -> str:
    """A sentence to add to an error where a record was made by a newer surefoot than this one; else nothing.

    >>> newer({"surefoot": "99.1.0"})[:36], newer({"surefoot": "0.0.1"})
    (' It was made by surefoot 99.1.0, and', '')
    """
    made = str(versions.get("surefoot", "")) if isinstance(versions, Mapping) else ""
    numbers = [tuple(int(part) for part in re.findall(r"\d+", text)[:3]) for text in (made, __version__)]
    return f" It was made by surefoot {made}, and this is {__version__}: upgrade." if numbers[0] > numbers[1] else ""


def has_keys(record: Any, keys: Mapping[str, type]) -> bool:
    """Whether a record is a JSON object with at least these keys, of these types."""
    return isinstance(record, dict) and all(isinstance(record.get(key), kind) for key, kind in keys.items())


def read_record(path: Path, keys: Mapping[str, type], *, kind: str) -> dict[str, Any]:
    """A JSON object with at least `keys` of their types; ValueError where the file is missing or something else.

    DamagedError, one of them, where it holds something else; what the disk refuses (OSError) is no damage.
    """
    error = f"{path.parent} is not a {kind} folder: it has no readable {path.name}."
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(error) from None
    except ValueError:
        raise DamagedError(error) from None
    if not has_keys(record, keys):
        raise DamagedError(error)
    return record
