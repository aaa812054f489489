"""Where data sets lie."""

import os
from pathlib import Path


def data_store() -> Path:
    """The folder that SUREFOOT_DATA names, else `surefoot` in the user's cache folder (XDG_CACHE_HOME or ~/.cache)."""
    named = os.environ.get("SUREFOOT_DATA")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "surefoot"


def stored_file(file: str, *, fix: str) -> Path:
    """The path of a file in the store; if there is none, an error with the `fix`."""
    path = data_store() / file
    if not path.is_file():
        raise FileNotFoundError(f"There is no {file} in {data_store()}. {fix}")
    return path


def folder_in_store(path: str) -> Path:
    """The folder as named, or, where there is none of a relative name, that in the store."""
    named = Path(path)
    return named if named.is_dir() or named.is_absolute() else data_store() / named
