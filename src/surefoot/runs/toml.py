"""TOML in and out."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file; ValueError if it is not one."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"There is no file {path}.") from None
    except IsADirectoryError:
        raise ValueError(f"{path} is a folder, not a TOML file.") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not TOML: it is not UTF-8 text.") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not TOML: {error}.") from None


def to_toml(tree: Mapping[str, Any], *, prefix: str = "") -> str:
    """A mapping of plain values, lists and mappings as TOML text; plain keys before tables.

    >>> print(to_toml({"a": {"b": 0.5, "c": [1, 2]}, "d": "x"}), end="")
    d = "x"
    <BLANKLINE>
    [a]
    b = 0.5
    c = [1, 2]
    """
    lines = [f"{_key(key)} = {_value(value)}\n" for key, value in tree.items() if not isinstance(value, Mapping)]
    text = "".join(lines)
    for key, value in tree.items():
        if isinstance(value, Mapping):
            name = f"{prefix}{_key(key)}"
            text += f"\n[{name}]\n" + to_toml(value, prefix=f"{name}.")
    return text


def set_key(tree: dict[str, Any], assignment: str) -> None:
    """Apply `a.b.c=value` to a nested mapping; the value is read as TOML, or as a string where it is none.

    >>> tree = {"optimizer": {"lr": 0.1}}
    >>> set_key(tree, "optimizer.lr=0.2"); set_key(tree, "optimizer.name=sgd"); tree
    {'optimizer': {'lr': 0.2, 'name': 'sgd'}}
    """
    path, separator, text = assignment.partition("=")
    keys = path.strip().split(".")
    if not separator or not all(keys):
        raise ValueError(f"An assignment must look like key=value or table.key=value, got {assignment!r}.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    assign(tree, keys, value)


def assign(tree: dict[str, Any], keys: list[str], value: Any) -> None:
    """Set a value deep in nested mappings, making the ones that are missing."""
    *parents, last = keys
    for parent in parents:
        inner = tree.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise ValueError(f"`{'.'.join(keys)}` cannot be set: `{parent}` is not a table.")
        tree = inner
    tree[last] = value


def _key(key: str) -> str:
    plain = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
    return key if plain else json.dumps(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, int | float):
        return repr(value)
    raise ValueError(f"TOML has no {type(value).__name__}, got {value!r}.")
