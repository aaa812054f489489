"""A study: one question, one TOML file, grids of runs at several scales."""

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from importlib.metadata import entry_points
from itertools import product
from pathlib import Path
from typing import Any

from surefoot.registry import look_up, unknown
from surefoot.runs.check_options import check_type
from surefoot.runs.spec import RunSpec
from surefoot.runs.toml import assign, read_toml
from surefoot.studies.claim import Rule

_KEYS = {"title": str, "analysis": str, "scales": dict, "claims": dict}
_RULE_KEYS = {"statistic": str, "interval": str, "threshold": str}
_ROLES = {"scientific": list[str], "nuisance": list[str], "fixed": list[str]}
_PARTS = [field.name for field in fields(RunSpec)]
_SCALE_KEYS = {"about": str, "seeds": list[int], "run": dict, "grid": list[dict]}  # type: ignore[type-arg]


@dataclass(frozen=True)
class Study:
    """Named runs around one question, at one scale."""

    name: str
    title: str
    analysis: str  # the module that reads the runs
    scale: str
    about: str  # what the scale is and what was chosen
    axes: Mapping[str, tuple[str, ...]]  # of what the runs differ in: asked about, varied beside it, or bound to it
    rules: tuple[Rule, ...]  # how each family of claims is judged
    specs: tuple[RunSpec, ...]
    file: str | None = None  # where it is none of surefoot's own


def read_study(name: str, *, scale: str | None = None) -> Study:
    """The study of that name (or the TOML file at that path), at one of its scales: the first if none is named."""
    own = name.endswith(".toml")
    path = Path(name) if own else look_up("study", name, study_files())
    tree = read_toml(path)
    try:
        return replace(_study(_name(path, tree), tree, scale), file=name if own else None)
    except ValueError as error:
        raise ValueError(f"In {path.name if own else name}: {error}") from None


def study_files() -> dict[str, Path]:
    """The files of the studies that installed packages bring, by name.

    A package brings studies by an entry point in the group `surefoot.studies`, a function that returns their paths.
    """
    paths = [path for point in entry_points(group="surefoot.studies") for path in point.load()()]
    return dict(sorted((_name(path, read_toml(path)), path) for path in paths))


def _name(path: Path, tree: Mapping[str, Any]) -> str:
    """The study's name: the one its file gives, else that of the file."""
    return str(tree.get("name", path.stem))


def read_rules(tables: Mapping[str, Any]) -> tuple[Rule, ...]:
    """The rules in the [claims] of a study's file or record, by family; ValueError where one is not as it should be."""
    for family, table in tables.items():
        _check_keys(f"[claims.{family}]", table, _RULE_KEYS)
    return tuple(Rule(family, **table) for family, table in tables.items())


def describe_axes(axes: Mapping[str, Sequence[str]]) -> str:
    """What the runs differ in, as a sentence.

    >>> describe_axes({"scientific": ("optimizer.name",), "nuisance": ("seed",), "fixed": ()})
    'Asked about: optimizer.name. Varied beside it: seed.'
    """
    names = {"scientific": "Asked about", "nuisance": "Varied beside it", "fixed": "Bound to it"}
    return " ".join(f"{name}: {', '.join(axes[role])}." for role, name in names.items() if axes.get(role))


def scale_names(path: Path) -> list[str]:
    """The scales that a study's file offers."""
    scales = read_toml(path).get("scales", {})
    return list(scales) if isinstance(scales, dict) else []


def _study(name: str, tree: Mapping[str, Any], scale: str | None) -> Study:
    axes, claims = tree.get("axes"), tree.get("claims", {})
    if "outcome" in tree:
        raise ValueError(
            "`outcome` is called `analysis` now: the module that reads the runs, such as `my_package.mine`."
        )
    _check_keys("a study", {"claims": {}, **tree}, _KEYS, more=("axes", "name"))
    if not tree["scales"]:
        raise ValueError("a study needs at least one scale, as in [scales.digits].")
    scale = scale or next(iter(tree["scales"]))
    chosen = look_up("scale", scale, tree["scales"])
    if Path(scale).name != scale or not scale or scale.startswith("."):
        raise ValueError(f"a scale's name must be one that a folder can have, got {scale!r}.")
    _check_keys(f"[scales.{scale}]", chosen, _SCALE_KEYS)
    if not chosen["seeds"] or not chosen["grid"]:
        raise ValueError(f"[scales.{scale}] needs at least one seed and one block of the grid.")
    if "seed" in chosen["run"] or any("seed" in block for block in chosen["grid"]):
        raise ValueError(f"the seeds of scale {scale!r} are its `seeds`; `run` and `grid` must not have a `seed`.")
    specs = []
    for seed in chosen["seeds"]:  # outermost: a study that is cut short has one seed of everything
        for number, block in enumerate(chosen["grid"], start=1):
            try:
                specs += [RunSpec.from_dict({**point, "seed": seed}) for point in _points(chosen["run"], block)]
            except ValueError as error:
                where = f"block {number} of [[scales.{scale}.grid]], laid over [scales.{scale}.run]"
                raise ValueError(f"{where}: {error}") from None
    seen: set[str] = set()
    for spec in specs:
        if _canonical(spec) in seen:
            raise ValueError(f"two runs of scale {scale!r} are the same: {spec.label}.")
        seen.add(_canonical(spec))
    about = (tree["title"], tree["analysis"], scale, chosen["about"])
    return Study(name, *about, _axes(axes, specs), read_rules(claims), tuple(specs))


def _canonical(spec: RunSpec) -> str:
    """The same for specs that differ only in how a number is written, 1 or 1.0, which have ids of their own."""
    return json.dumps(json.loads(json.dumps(spec.to_dict()), parse_int=float), sort_keys=True)


def _axes(roles: Any, specs: Sequence[RunSpec]) -> dict[str, tuple[str, ...]]:
    """What the runs differ in, by its role: of the entries that hold a key, the longest one decides.

    Where a file gives no roles, seeds are a nuisance and all else is asked about.
    """
    if roles is None:
        varied = _varied(specs)
        asked = tuple(key for key in varied if key != "seed")
        return {"scientific": asked, "nuisance": ("seed",) if "seed" in varied else (), "fixed": ()}
    _check_keys("[axes]", roles, _ROLES)
    entries = [entry for role in _ROLES for entry in roles[role]]
    for entry in entries:
        if entry.partition(".")[0] not in _PARTS:
            raise unknown("part of a run in [axes]", entry, _PARTS)
        if entries.count(entry) > 1:
            raise ValueError(f"[axes] names `{entry}` twice: a key has one role.")
    role_of = {entry: role for role, entries in roles.items() for entry in entries}
    by_role: dict[str, list[str]] = {role: [] for role in _ROLES}
    for key in _varied(specs):
        holding = [entry for entry in role_of if f"{key}.".startswith(f"{entry}.")]
        if not holding:
            roles_text = "scientific (asked about), nuisance (varied beside it) or fixed (bound to another)"
            raise ValueError(f"`{key}` varies: say in [axes] whether it is {roles_text}.")
        by_role[role_of[max(holding, key=len)]].append(key)
    return {role: tuple(keys) for role, keys in by_role.items()}


def _varied(specs: Sequence[RunSpec]) -> list[str]:
    """The keys that not all runs have with the same value."""
    values: dict[str, list[str]] = {}
    for spec in specs:
        for keys, value in _leaves(spec.to_dict()):
            values.setdefault(".".join(keys), []).append(repr(value))
    return [key for key, each in values.items() if len(set(each)) > 1 or len(each) < len(specs)]


def _check_keys(where: str, tree: Any, types: Mapping[str, Any], *, more: Sequence[str] = ()) -> None:
    if not isinstance(tree, Mapping):
        raise ValueError(f"{where} must be a table, got {tree!r}.")
    for key in tree:
        if key not in types and key not in more:
            raise unknown(f"key in {where}", key, [*types, *more])
    for key in types:
        if key not in tree:
            raise ValueError(f"{where} needs `{key}`.")
        check_type(key, tree[key], types[key])


def _points(common: Mapping[str, Any], block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination of the values that the block lists, each laid over what all runs have in common."""
    axes = dict(_leaves(block))
    for keys, value in axes.items():
        if value == []:
            raise ValueError(f"`{'.'.join(keys)}` in the grid lists no values.")
    for values in product(*(value if isinstance(value, list) else [value] for value in axes.values())):
        point: dict[str, Any] = deepcopy(dict(common))
        for keys in _empty(block):  # as in `scores = {}`, an observer with its defaults
            if not isinstance(_at(point, keys), dict):
                assign(point, list(keys), {})
        for keys, value in zip(axes, values, strict=True):
            assign(point, list(keys), value)
        yield point


def _leaves(tree: Mapping[str, Any], prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*prefix, key))
        else:
            yield (*prefix, key), value


def _empty(tree: Mapping[str, Any], prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _empty(value, (*prefix, key)) if value else [(*prefix, key)]


def _at(tree: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree
