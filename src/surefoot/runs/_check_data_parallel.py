"""What several processes can train together so that one alone would come to the same numbers, up to rounding."""

from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from surefoot.losses import LOSSES, Remembering, couples_samples
from surefoot.runs.spec import RunSpec


def check_data_parallel(spec: RunSpec) -> None:
    """Raise ValueError unless each process can do its part of a batch without knowing the others' samples.

    The rest of the spec must have been checked before.
    """
    if spec.processes == 1:
        return
    name = spec.loss.name
    made: Any = LOSSES.get(name)
    options = spec.optimizer.options
    for wrong, why in (
        (made is None, f"the objective {name} is more than a loss of logits"),
        (made is not None and couples_samples(made), f"the loss {name} couples the samples of a batch"),
        (made is not None and issubclass(made, Remembering), f"the loss {name} remembers the samples it saw"),
        (spec.ensemble.name != "single", f"the ensemble {spec.ensemble.name} has several models"),
        ("full_gap" in options, "`optimizer.full_gap` measures the gap of a whole batch"),
        (options.get("sync_perturbation") is False, "`optimizer.sync_perturbation` lets each climb by itself"),
        (spec.device != "cpu", f"several train together on the CPU only, and `device` is {spec.device!r}"),
    ):
        if wrong:
            raise ValueError(f"`processes` must be 1, got {spec.processes}: {why}.")


def refuse_coupling(model: nn.Module) -> None:
    """Raise ValueError where what the model says of a sample in training depends on others, or is random."""
    for name, module in model.named_modules():
        if isinstance(module, _BatchNorm):
            raise ValueError(f"`processes` must be 1: layer {name!r}, a batch norm, needs the whole batch.")
        drops = module.p if isinstance(module, _DropoutNd) else getattr(module, "dropout", 0.0)
        if isinstance(drops, float) and drops > 0:
            raise ValueError(f"`processes` must be 1: layer {name!r} drops units, each process others.")
