"""What a user asked for, and the one way to say that it cannot be."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_RECORDS = ("run.json", "metrics.jsonl", "metrics.jsonl.gz", "times.jsonl", "study.json")


class BadRequest(Exception):
    """The request is wrong: said in one sentence, exit code 2."""


@contextmanager
def request() -> Iterator[None]:
    """Reading and checking what was asked for: errors of value, file or optional package are the user's to fix."""
    try:
        yield
    except OSError as error:
        name = str(error.filename or "")
        said = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", str(error.strerror)) is not None
        where = f": {name}" if name and not said else ""
        raise BadRequest(f"{error.strerror}{where}." if error.strerror else str(error)) from error
    except (ValueError, ImportError) as error:
        raise BadRequest(str(error)) from error


def check_path(name: str, path: Path) -> None:
    """Refuse a path that does not exist, and a record in the folder of a run or study that is given for the folder."""
    if not path.exists():
        raise ValueError(f"`{name}` does not exist: {path}.")
    if path.name in _RECORDS and path.is_file():
        raise ValueError(f"`{name}` is a record in a folder, {path}: give the folder, {path.parent}.")
