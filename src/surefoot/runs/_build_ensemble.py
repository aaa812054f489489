"""From an ensemble's name and options to the model that trains: what a run knows and a TOML file cannot say."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from surefoot.data import Split
from surefoot.ensembles import ENSEMBLES, SWAG, BSAMSampling, DeepEnsemble, Ensemble, MCDropout, with_dropout
from surefoot.losses import LOSSES, Lifted, Loss, Objective, Remembering
from surefoot.optim import BSAM, OPTIMIZERS
from surefoot.registry import look_up
from surefoot.runs._build_objective import refuse_curvature
from surefoot.runs._collect_weights import CollectionSchedule
from surefoot.runs.check_options import check_options, options_of
from surefoot.runs.spec import RunSpec

_SUPPLIED = {"model", "models", "build", "seed", "num_train", "batches", "model_first"}  # by the run, not by its spec
_AT_ONCE = 512  # training samples that a draw's batch norm statistics are averaged over
_EVERY = {"single": None, **ENSEMBLES}


def check_ensemble(spec: RunSpec) -> None:
    """Raise ValueError unless the name is known, its options fit, and it combines with the rest of the spec."""
    name, options = spec.ensemble.name, spec.ensemble.options
    look_up("ensemble", name, _EVERY)
    check_options("ensemble", options, *_builder(name).makers, supplied=_SUPPLIED)
    if name != "single":
        _check_combination(spec)


def _check_combination(spec: RunSpec) -> None:
    name, loss = spec.ensemble.name, spec.loss.name
    if name == "bsam" and not issubclass(OPTIMIZERS[spec.optimizer.name], BSAM):
        raise ValueError(
            "The ensemble bsam draws from the Gaussian that the optimizer bsam learns, and "
            f"{spec.optimizer.name} learns none: set `optimizer.name` to bsam."
        )
    if loss not in LOSSES:
        raise ValueError(f"An ensemble trains its members on a loss of logits, and {loss} is none: use another.")
    kind: Any = LOSSES[loss]
    if issubclass(kind, Remembering):
        raise ValueError(f"The loss {loss} remembers the outputs of one model, and {name} has several: use another.")
    refuse_curvature(spec, f"{name} has several models")


def build_ensemble(spec: RunSpec, make: Callable[[], nn.Module], train: Split) -> nn.Module:
    """The model that `make` makes, or the ensemble of such that a checked spec names, to be trained on `train`."""
    return _builder(spec.ensemble.name).build(spec, make, train)


def objective_of(model: nn.Module, loss: Loss) -> Objective:
    """The loss as the objective of a model: an ensemble has its own way to lift it."""
    return model.objective(loss) if isinstance(model, Ensemble) else Lifted(loss)


@dataclass(frozen=True)
class _Builder:
    makers: tuple[Callable[..., Any], ...]  # which together take the options of the spec
    build: Callable[[RunSpec, Callable[[], nn.Module], Split], nn.Module]


def _builder(name: str) -> _Builder:
    return _BUILDERS.get(name) or _Builder((ENSEMBLES[name],), _around_a_model)


def _around_a_model(spec: RunSpec, make: Callable[[], nn.Module], train: Split) -> nn.Module:
    kind: Any = ENSEMBLES[spec.ensemble.name]
    supplied: Mapping[str, Any] = {"num_train": len(train.labels)} if "num_train" in options_of(kind) else {}
    made: nn.Module = kind(make(), **supplied, **spec.ensemble.options)
    return made


def _mc_dropout(spec: RunSpec, make: Callable[[], nn.Module], train: Split) -> nn.Module:
    options = dict(spec.ensemble.options)
    return MCDropout(with_dropout(make(), rate=options.pop("rate", 0.1)), **options)


def _rate(*, rate: float = 0.1) -> float:
    return rate


def _swag(spec: RunSpec, make: Callable[[], nn.Module], train: Split) -> nn.Module:
    schedule = options_of(CollectionSchedule)
    options = {key: value for key, value in spec.ensemble.options.items() if key not in schedule}
    return SWAG(make(), model_first=True, batches=torch.split(train.inputs, _AT_ONCE), **options)


_BUILDERS: dict[str, _Builder] = {
    "bsam": _Builder(
        (BSAMSampling,), lambda spec, make, train: BSAMSampling(make(), model_first=True, **spec.ensemble.options)
    ),
    "deep_ensemble": _Builder(
        (DeepEnsemble.built,),
        lambda spec, make, train: DeepEnsemble.built(make, seed=spec.seed, **spec.ensemble.options),
    ),
    "mc_dropout": _Builder((MCDropout, _rate), _mc_dropout),
    "single": _Builder((), lambda spec, make, train: make()),
    "swag": _Builder((SWAG, CollectionSchedule), _swag),
}
