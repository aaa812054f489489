"""From a spec to the objects that train."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from surefoot.data import DATASETS, Dataset
from surefoot.data.augment import Augment
from surefoot.losses import Lifted
from surefoot.models import MODELS
from surefoot.optim import SAM
from surefoot.registry import look_up
from surefoot.runs._build_ensemble import build_ensemble, check_ensemble, objective_of
from surefoot.runs._build_objective import build_objective, check_objective, descent_of, fitted, has_validation
from surefoot.runs._build_optimizer import build_optimizer, check_optimizer
from surefoot.runs._check_data_parallel import check_data_parallel, refuse_coupling
from surefoot.runs._collect_weights import weight_collector
from surefoot.runs.check_options import check_options
from surefoot.runs.selection import check_selection
from surefoot.runs.spec import RunSpec
from surefoot.training.batches import Batches
from surefoot.training.loop import Training
from surefoot.training.observers import OBSERVERS
from surefoot.training.process_group import ProcessGroup
from surefoot.training.rates import RATES


def _nothing(*, seed: int) -> None:
    """No augmentation."""


_AUGMENTS: dict[str, Callable[..., Any]] = {"images": Augment, "none": _nothing}


def check(spec: RunSpec) -> None:
    """Raise ValueError unless every name is known and every option has its key and type. Builds and loads nothing."""
    check_options("data", spec.data.options, look_up("dataset", spec.data.name, DATASETS))
    context = {"input_shape": (1,), "num_classes": 2}
    for key in context.keys() & spec.model.options.keys():
        raise ValueError(f"`model.{key}` follows from the data and cannot be set.")
    check_options("model", {**spec.model.options, **context}, look_up("model", spec.model.name, MODELS))
    check_options("rate", spec.rate.options, look_up("rate", spec.rate.name, RATES))
    check_options(
        "augment", spec.augment.options, look_up("augmentation", spec.augment.name, _AUGMENTS), supplied={"seed"}
    )
    check_optimizer(spec)
    for name, options in spec.observers.items():
        check_options(f"observers.{name}", options, look_up("observer", name, OBSERVERS))
    check_objective(spec)
    check_ensemble(spec)
    check_data_parallel(spec)
    check_selection(spec, has_validation=has_validation(spec))


def build(spec: RunSpec, *, data: Dataset | None = None, process_group: ProcessGroup | None = None) -> Training:
    """Data, model, objective, optimizer and observers of a spec, on its device, seeded by its seed.

    Sets the global generators to the seed: a model's initialisation and dropout draw from them. `data` spares loading
    what was loaded before. `process_group` are the processes that train together; alone if not given.
    """
    check(spec)
    device = resolve_device(spec.device)
    data = (data or DATASETS[spec.data.name](**spec.data.options)).to(device)
    torch.manual_seed(spec.seed)

    def make() -> nn.Module:
        return MODELS[spec.model.name](
            input_shape=data.input_shape, num_classes=data.num_classes, **_tuples(spec.model.options)
        )

    model = fitted(spec, build_ensemble(spec, make, data.train)).to(device)
    if spec.processes > 1:
        refuse_coupling(model)
    objective = build_objective(spec, model, data)
    loss = objective.loss if isinstance(objective, Lifted) else None
    optimizer = build_optimizer(spec, model, loss, data.train)
    observers = {name: OBSERVERS[name](**_tuples(options)) for name, options in spec.observers.items()}
    for observer in observers.values():
        getattr(observer, "check", lambda splits: None)(data.splits)
    batches = Batches(
        data.train,
        batch_size=None if spec.batch_size == "full" else spec.batch_size,
        seed=spec.seed,
        augment=_AUGMENTS[spec.augment.name](seed=spec.seed, **spec.augment.options),
    )
    return Training(
        model=model,
        objective=objective if loss is None else objective_of(model, loss),
        optimizer=optimizer,
        batches=batches,
        splits=data.splits,
        observers=observers,
        reduction=spec.reduction,
        clip_grad_norm=None if spec.clip_grad_norm == "none" else spec.clip_grad_norm,
        rate=RATES[spec.rate.name](**_tuples(spec.rate.options)),
        process_group=process_group or ProcessGroup(),
        descent=objective_of(model, optimizer.per_sample)
        if isinstance(optimizer, SAM) and loss is not None
        else descent_of(objective, optimizer),
        after_step=weight_collector(spec, model, optimizer, steps_per_epoch=batches.steps_per_epoch),
    )


def resolve_device(name: str) -> torch.device:
    """The device of that name; "auto" takes CUDA, then MPS, then the CPU. ValueError if it is not there."""
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        name = next(device for device, there in present.items() if there)
    if not present[name]:
        raise ValueError(f"`device` is {name!r}, but this machine has none that torch {torch.__version__} can use.")
    return torch.device(name)


def _tuples(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
