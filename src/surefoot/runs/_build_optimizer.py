"""From an optimizer's name and options to the optimizer: what a run knows and a TOML file cannot say is put in here."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, NAdam, RMSprop

from surefoot.data import Split
from surefoot.losses import Loss
from surefoot.optim import BSAM, OPTIMIZERS, SAM, BulkSGD
from surefoot.registry import look_up
from surefoot.runs._top_subspace import TopSubspace
from surefoot.runs.check_options import check_options, check_type, options_of
from surefoot.runs.spec import RunSpec

BASES: dict[str, type[torch.optim.Optimizer]] = {
    "adam": Adam,
    "adamw": AdamW,
    "nadam": NAdam,
    "rmsprop": RMSprop,
    "sgd": SGD,
}
_SUPPLIED = {"params", "base", "loss", "subspace", "num_samples", "model", "split"}  # by the run, not by its spec


def check_optimizer(spec: RunSpec) -> None:
    """Raise ValueError unless the name is known and every option has its key and type."""
    kind = look_up("optimizer", spec.optimizer.name, OPTIMIZERS)
    options = dict(spec.optimizer.options)
    makers: list[Any] = [*_makers(kind)]
    if issubclass(kind, SAM):
        makers.append(_base(options))
        options.pop("base", None)
    if issubclass(kind, BulkSGD):
        makers.append(TopSubspace)
    check_options("optimizer", options, *makers, supplied=_SUPPLIED)
    if getattr(kind, "full_batch", False) and spec.batch_size != "full":
        raise ValueError(f'`batch_size` must be "full" for {spec.optimizer.name}, got {spec.batch_size}.')


def build_optimizer(spec: RunSpec, model: nn.Module, loss: Loss | None, train: Split) -> torch.optim.Optimizer:
    """The optimizer of a spec that `check_optimizer` has passed; no `loss` where the objective is more than one."""
    kind: Any = OPTIMIZERS[spec.optimizer.name]
    options: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in spec.optimizer.options.items()
    }
    if issubclass(kind, SAM):
        options |= {"base": _base(options), "loss": loss}
    elif issubclass(kind, BSAM):
        options = {"num_samples": len(train.labels), "seed": spec.seed, **options}
    elif issubclass(kind, BulkSGD):
        theirs = {key: options.pop(key) for key in options_of(TopSubspace).keys() & options.keys()}
        if loss is None:
            raise ValueError(f"{spec.optimizer.name} needs the curvature of a loss of logits, and there is none.")
        options["subspace"] = TopSubspace(model, loss, train, **{"seed": spec.seed, **theirs})
    made: torch.optim.Optimizer = kind(model.named_parameters(), **options)
    return made


def gradients_per_step(spec: RunSpec) -> int:
    """How many gradients of a batch the optimizer takes for a step."""
    return int(getattr(OPTIMIZERS[spec.optimizer.name], "gradients_per_step", 1))


def _makers(kind: type) -> list[type]:
    """The class and those above it that take options: subclasses of SAM hand on what they do not know."""
    return [made for made in kind.__mro__ if issubclass(made, SAM)] or [kind]


def _base(options: Mapping[str, Any]) -> type[torch.optim.Optimizer]:
    check_type("optimizer.base", options.get("base", "sgd"), str)
    return look_up("base optimizer", options.get("base", "sgd"), BASES)
