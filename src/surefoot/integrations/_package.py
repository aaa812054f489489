"""Optional packages."""

from importlib import import_module
from typing import Any


def imported(module: str, *, extra: str, needed_by: str) -> Any:
    """An optional module; ImportError that names the extra where it is not installed.

    >>> imported("no_such_module", extra="hf", needed_by="The trainer")
    Traceback (most recent call last):
    ImportError: The trainer needs no_such_module: pip install 'surefoot[hf]'.
    """
    try:
        return import_module(module)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]
        why = "" if missing else f" It is there and does not import: {error}"
        raise ImportError(f"{needed_by} needs {module}: pip install 'surefoot[{extra}]'.{why}") from error
