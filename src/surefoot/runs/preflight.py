"""Checks that runs can be done here, before any of them begins."""

from collections.abc import Sequence

import torch

from surefoot.data import DATASETS
from surefoot.runs.build import build, check
from surefoot.runs.check_options import NotAListError
from surefoot.runs.spec import RunSpec

_LISTS = "In a study's grid a list is several values, each for runs of their own: one that is a list is [[8, 16]]."


def preflight(specs: Sequence[RunSpec]) -> None:
    """Raise ValueError or OSError if a spec cannot run here: names, types, values, device, data.

    Loads each data set once and builds every object of every spec, leaving the global generators alone.
    """
    for spec in specs:
        try:
            check(spec)
        except ValueError as error:
            hint = f" {_LISTS}" if isinstance(error, NotAListError) else ""
            raise ValueError(f"{error}{hint} (in run {spec.label})") from None
    parts = {repr(spec.data): spec.data for spec in specs}
    loaded = {key: DATASETS[data.name](**data.options) for key, data in parts.items()}
    with torch.random.fork_rng():
        for spec in specs:
            build(spec, data=loaded[repr(spec.data)])
