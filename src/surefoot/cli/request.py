"""What a user asked for, and the one way to say that it cannot be."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from surefoot.argument_error import ArgumentError

_RECORDS = ("run.json", "metrics.jsonl", "metrics.jsonl.gz", "times.jsonl", "study.json")
_FLAGS = {  # argument of a library function -> flag of the commands
    **{name: f"`--{name}`" for name in ("logits", "labels", "level", "method")},
    "probabilities": "`--probs`",
    "num_bins": "`--bins`",
}


class BadRequest(Exception):
    """The request is wrong: said in one sentence, exit code 2."""


@contextmanager
def request(names: Mapping[str, object] | None = None) -> Iterator[None]:
    """Turn errors of value, file or optional package into a `BadRequest`, in the user's own names.

    Library errors name arguments. Here they become flags, or what `names` calls them: for example the file that an
    argument was read from.
    """
    try:
        yield
    except OSError as error:
        name = str(error.filename or "")
        named = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", str(error.strerror)) is not None
        where = f": {name}" if name and not named else ""
        raise BadRequest(f"{error.strerror}{where}." if error.strerror else str(error)) from error
    except ArgumentError as error:
        raise BadRequest(error.renamed(_FLAGS | {key: str(value) for key, value in (names or {}).items()})) from error
    except (ValueError, ImportError) as error:
        raise BadRequest(str(error)) from error


def check_path(name: str, path: Path) -> None:
    """Refuse a path that does not exist, and a record in the folder of a run or study that is given for the folder."""
    if not path.exists():
        raise ValueError(f"`{name}` does not exist: {path}.")
    if path.name in _RECORDS and path.is_file():
        raise ValueError(f"`{name}` is a record in a folder, {path}: give the folder, {path.parent}.")
