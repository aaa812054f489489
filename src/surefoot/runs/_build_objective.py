"""From a loss's name and options to what is minimised: what a run knows and a TOML file cannot say is put in here."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from surefoot.data import DATASETS, Dataset
from surefoot.losses import LOSSES, OBJECTIVES, Lifted, Objective, couples_samples
from surefoot.optim import CSAM, OPTIMIZERS, SAM, BulkSGD
from surefoot.registry import look_up
from surefoot.runs.check_options import check_options, options_of
from surefoot.runs.spec import RunSpec
from surefoot.training.observers import OBSERVERS

_SUPPLIED = {"model", "num_samples"}  # by the run, not by its spec


def check_objective(spec: RunSpec) -> None:
    """Raise ValueError unless the name is known, every option has its key and type, and all that is asked for combines.

    Optimizer and observers must have been checked before.
    """
    make = _maker(spec)
    name = spec.loss.name
    check_options("loss", spec.loss.options, make, supplied=_SUPPLIED)
    asking = {f"loss {name}": (make, spec.loss.options)}
    asking |= {f"observer {key}": (OBSERVERS[key], options) for key, options in spec.observers.items()}
    for what, (thing, options) in asking.items():
        if _needs_validation(thing, options) and not has_validation(spec):
            raise ValueError(f"The {what} needs a validation split: set `data.num_validation`.")
    optimizer = OPTIMIZERS[spec.optimizer.name]
    if name in OBJECTIVES and issubclass(optimizer, CSAM) and not hasattr(make, "based_on"):
        raise ValueError(f"CSAM weighs the loss of each sample's logits, and {name} is no loss of logits: use another.")
    if name in LOSSES and not couples_samples(make):
        return
    why = f"{name} {'is no loss of logits' if name in OBJECTIVES else 'couples the samples of a batch'}, so it has none"
    refuse_bulk(spec, why) if hasattr(make, "within") else refuse_curvature(spec, why)


def refuse_curvature(spec: RunSpec, why: str) -> None:
    """Raise ValueError if an optimizer or observer of the spec needs the curvature of one model's loss of logits."""
    refuse_bulk(spec, why)
    for observer in spec.observers:
        if getattr(OBSERVERS[observer], "needs_curvature", False):
            raise ValueError(
                f"The observer {observer} needs the curvature of a loss, and {why}: "
                f"set `observers.{observer}` to false."
            )


def refuse_bulk(spec: RunSpec, why: str) -> None:
    """Raise ValueError if the optimizer of the spec goes by the curvature of what it minimises."""
    if issubclass(OPTIMIZERS[spec.optimizer.name], BulkSGD):
        raise ValueError(f"{spec.optimizer.name} needs the curvature of a loss, and {why}.")


def _needs_validation(make: Any, options: Mapping[str, Any]) -> bool:
    """What it says of itself, always or with these options."""
    needs = getattr(make, "needs_validation", False)
    return bool(needs(options) if callable(needs) else needs)


def has_validation(spec: RunSpec) -> bool:
    """Whether the data of a spec has a validation split."""
    option = options_of(DATASETS[spec.data.name]).get("num_validation")
    return option is None or bool(spec.data.options.get("num_validation", option.default))


def fitted(spec: RunSpec, model: nn.Module) -> nn.Module:
    """The model as the objective needs it: some add to it."""
    wrapped = getattr(_maker(spec), "wrapped", None)
    return model if wrapped is None else wrapped(model, seed=spec.seed)


def build_objective(spec: RunSpec, model: nn.Module, data: Dataset) -> Objective:
    """What a spec that `check_objective` has passed minimises, losses lifted to objectives."""
    make = _maker(spec)
    if _needs_validation(make, spec.loss.options) and data.validation is None:
        raise ValueError(f"The loss {spec.loss.name} needs a validation split, and {data.name} has none.")
    available: dict[str, Any] = {"model": model, "num_samples": len(data.train.labels), "seed": spec.seed}
    supplied = {key: available[key] for key in options_of(make).keys() & available.keys()}
    made = make(**{**supplied, **spec.loss.options})
    return Lifted(made) if spec.loss.name in LOSSES else made


def descent_of(objective: Objective, optimizer: torch.optim.Optimizer) -> Objective | None:
    """The objective on the loss that a SAM has for the pass it is in; None where that makes no difference."""
    based_on = getattr(objective, "based_on", None)
    return based_on(optimizer.per_sample) if isinstance(optimizer, SAM) and based_on is not None else None


def _maker(spec: RunSpec) -> Callable[..., Any]:
    return look_up("loss", spec.loss.name, {**LOSSES, **OBJECTIVES})
