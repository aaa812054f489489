"""`surefoot list`: what there is, by name."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import tyro

from surefoot.cli._terminal import print_json, print_table
from surefoot.cli.request import request
from surefoot.table import Table

Kind = Literal["studies", "optimizers", "losses", "models", "ensembles", "datasets", "metrics", "observers", "posthoc"]


@dataclass
class ListCommand:
    """List the studies, optimizers, losses, models, ensembles, data sets, metrics, observers and post-hoc maps.

    Example: surefoot list optimizers
    """

    kinds: tyro.conf.Positional[tuple[Kind, ...]] = ()
    """Which registries; all of them if none is named."""
    json: bool = False
    """Print names and descriptions as JSON."""

    def __call__(self) -> int:
        with request():
            tables = {kind: _descriptions(kind) for kind in self.kinds or Kind.__args__}  # type: ignore[attr-defined]
        if self.json:
            print_json(tables)
        else:
            for kind, entries in tables.items():
                print_table(Table(kind, kind, ("name", "what it is"), tuple(entries.items())))
        return 0


def _descriptions(kind: str) -> dict[str, str]:
    if kind == "studies":
        from surefoot.runs.toml import read_toml
        from surefoot.studies.study import study_files

        trees = {name: read_toml(path) for name, path in study_files().items()}
        return {name: f"{tree['title']} Scales: {', '.join(tree['scales'])}." for name, tree in trees.items()}
    return {name: _first_line(thing) for name, thing in _registry(kind).items()}


def _registry(kind: str) -> Mapping[str, Any]:
    if kind == "observers":
        from surefoot.training.observers import OBSERVERS

        return OBSERVERS
    import surefoot.data
    import surefoot.ensembles
    import surefoot.losses
    import surefoot.metrics
    import surefoot.models
    import surefoot.optim
    import surefoot.posthoc

    tables: dict[str, Mapping[str, Any]] = {
        "optimizers": surefoot.optim.OPTIMIZERS,
        "losses": {**surefoot.losses.LOSSES, **surefoot.losses.OBJECTIVES},
        "models": surefoot.models.MODELS,
        "ensembles": surefoot.ensembles.ENSEMBLES,
        "datasets": surefoot.data.DATASETS,
        "metrics": {name: metric.implementation for name, metric in surefoot.metrics.METRICS.items()},
        "posthoc": surefoot.posthoc.POSTHOC,
    }
    return tables[kind]


def _first_line(thing: Any) -> str:
    if thing.__module__.startswith("torch."):
        return f"torch.optim.{thing.__name__}"
    return (inspect.getdoc(thing) or "").partition("\n")[0]
