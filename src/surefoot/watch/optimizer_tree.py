"""Name and options of an optimizer that somebody else made, as a spec has them."""

import inspect
import math
from typing import Any

import torch
from torch.optim import Optimizer

from surefoot.optim import OPTIMIZERS, SAM

OWN = "own"  # the name of a part that only the loop that was watched knows


def innermost(optimizer: Any) -> Optimizer | None:
    """The optimizer inside the wrappers of accelerate."""
    while isinstance(getattr(optimizer, "optimizer", None), Optimizer):
        optimizer = optimizer.optimizer
    inner: Optimizer | None = optimizer
    return inner


def gradients_per_step(optimizer: Optimizer | None) -> int:
    """Gradients that the optimizer takes for a step."""
    return int(getattr(optimizer, "gradients_per_step", 1))


def optimizer_tree(optimizer: Optimizer | None) -> dict[str, Any]:
    """Its name, its initial learning rate, and the options that differ from their defaults."""
    if optimizer is None:
        return {"name": OWN}
    kinds: list[type] = [type(optimizer)] + ([type(optimizer.base)] if isinstance(optimizer, SAM) else [])
    defaults: dict[str, Any] = {}
    for kind in kinds[::-1]:
        for made in kind.__mro__[::-1]:
            parameters = inspect.signature(made.__init__).parameters  # type: ignore[misc]
            defaults |= {name: each.default for name, each in parameters.items()}
    names = {kind: name for name, kind in OPTIMIZERS.items()}
    group = optimizer.param_groups[0]
    rate = float(group.get("initial_lr", group.get("lr", math.nan)))  # a schedule may begin at 0
    tree: dict[str, Any] = {"name": names.get(type(optimizer), type(optimizer).__name__.lower())}
    tree |= {"lr": rate} if rate > 0 and math.isfinite(rate) else {}
    tree |= {"base": kinds[1].__name__.lower()} if len(kinds) > 1 and kinds[1] is not torch.optim.SGD else {}
    for key, value in group.items():
        if key in ("lr", "initial_lr", "params") or not isinstance(value, int | float | str):
            continue
        if value != defaults.get(key):
            tree[key] = value
    if isinstance(optimizer, SAM) and hasattr(optimizer, "gamma"):
        tree["gamma"] = optimizer.gamma
    return tree
