"""The engines, by name."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from surefoot.registry import look_up
from surefoot.runs.toml import set_key
from surefoot.studies.engines.cluster import ClusterEngine
from surefoot.studies.engines.engine import Engine
from surefoot.studies.engines.local import LocalEngine
from surefoot.studies.engines.ray import RayBackend
from surefoot.studies.engines.slurm import SlurmBackend


def make_engine(
    name: str, *, num_workers: int, address: str | None = None, options: Sequence[str] = (), logs: Path
) -> Engine:
    """The engine of that name; ValueError where it has no use for what is given, ImportError without its extra."""
    make = look_up("engine", name, _ENGINES)
    if address is not None and name != "ray":
        raise ValueError(f"`address` must not be given for the engine {name}, got {address!r}: it is a Ray cluster's.")
    if options and name != "slurm":
        raise ValueError(f"`engine-option` must not be given for the engine {name}, got {options[0]!r}.")
    given: dict[str, Any] = {}
    for assignment in options:
        set_key(given, assignment)
    return make(num_workers, address, given, logs)


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_ENGINES: dict[str, Callable[[int, str | None, dict[str, Any], Path], Engine]] = {
    "local": lambda num_workers, address, options, logs: LocalEngine(num_workers),
    "ray": lambda num_workers, address, options, logs: ClusterEngine(RayBackend(address)),
    "slurm": lambda num_workers, address, options, logs: ClusterEngine(
        SlurmBackend(logs, num_workers, options, cluster=options.pop("cluster", "slurm"))
    ),
}
