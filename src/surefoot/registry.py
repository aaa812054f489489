"""Look-up of registered names, with suggestions for unknown ones."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

Thing = TypeVar("Thing")


def look_up(kind: str, name: str, table: Mapping[str, Thing]) -> Thing:
    """The entry of `table` called `name`; for an unknown name an error that suggests the nearest.

    >>> look_up("optimizer", "sdg", {"gd": 1, "sgd": 2})
    Traceback (most recent call last):
    ...
    ValueError: Unknown optimizer 'sdg'. Did you mean 'sgd'? Known: gd, sgd.
    """
    if name not in table:
        raise unknown(kind, name, table)
    return table[name]


def unknown(kind: str, name: str, available: Iterable[str]) -> ValueError:
    """The error for a name that is not among the known ones."""
    names = sorted(available)
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ValueError(f"Unknown {kind} {name!r}.{hint} Known: {', '.join(names)}.")
