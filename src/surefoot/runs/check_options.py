"""Do given values fit a signature? Names and types, checked before any work."""

import inspect
import math
import types
from collections.abc import Callable, Container, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from surefoot.registry import unknown


def check_options(
    where: str, options: Mapping[str, Any], *makers: Callable[..., Any], supplied: Container[str] = ()
) -> None:
    """Raise ValueError unless the makers together take `options` by keyword: all known, of their type, none missing.

    Parameters named in `supplied` come from elsewhere and may not be set.
    """
    parameters = {
        name: parameter for make in makers for name, parameter in options_of(make).items() if name not in supplied
    }
    hints = {
        name: hint
        for make in makers
        for name, hint in get_type_hints(make.__init__ if inspect.isclass(make) else make).items()
    }
    for key, value in options.items():
        if key not in parameters:
            raise unknown(f"key in [{where}]", key, parameters)
        check_type(f"{where}.{key}", value, hints.get(key, Any))
    for name, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and name not in options:
            raise ValueError(f"[{where}] needs `{name}`.")


def options_of(make: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters of `make` by name, without `**options`."""
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return {name: p for name, p in inspect.signature(make).parameters.items() if p.kind not in kinds}


class NotAListError(ValueError):
    """A single value where a list is asked for."""


def check_type(where: str, value: Any, hint: Any) -> None:
    """Raise ValueError unless `value`, as read from TOML, fits the type hint."""
    if not fits(value, hint):
        kind = (
            NotAListError if get_origin(hint) in (tuple, list) and not isinstance(value, list | tuple) else ValueError
        )
        raise kind(f"`{where}` must be {_readable(hint)}, got {value!r}.")


def fits(value: Any, hint: Any) -> bool:
    """Whether a TOML value may stand where `hint` is asked for: ints pass as floats, lists as tuples, nan as nothing.

    >>> fits(1, float), fits(True, float), fits([1, 2], tuple[int, ...]), fits("full", int | Literal["full"])
    (True, False, True, True)
    """
    origin = get_origin(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(fits(value, option) for option in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if origin in (tuple, list):
        if not isinstance(value, list | tuple):
            return False
        inner = [part for part in get_args(hint) if part is not Ellipsis]
        variadic = origin is list or Ellipsis in get_args(hint)
        expected = inner * len(value) if variadic else inner
        return len(value) == len(expected) and all(map(fits, value, expected))
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint is type(None):
        return value is None
    return inspect.isclass(hint) and isinstance(value, hint)


def _readable(hint: Any) -> str:
    names = {
        float: "a number",
        int: "a whole number",
        bool: "true or false",
        str: "a string",
        dict: "a table",
        type(None): "",
    }
    if hint in names:
        return names[hint]
    if get_origin(hint) in (Union, types.UnionType):
        parts = [_readable(option) for option in get_args(hint)]
        return " or ".join(part for part in parts if part and "Tensor" not in part)
    if get_origin(hint) is Literal:
        return " or ".join(repr(option) for option in get_args(hint))
    if get_origin(hint) in (tuple, list):
        return f"a list of {_readable(get_args(hint)[0]).removeprefix('a ')}s"
    return getattr(hint, "__name__", str(hint))
