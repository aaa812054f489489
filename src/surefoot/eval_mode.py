"""Evaluation mode: switching to it and back, and refusing models that are not in it."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Every module in eval mode inside the block, and each in its own former mode after it."""
    before = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        yield
    finally:
        for module, training in before:
            module.training = training


def refuse_training(model: nn.Module) -> None:
    """Raise ValueError where the prediction of a sample is random, or depends on the other samples of the batch."""
    for name, module in model.named_modules():
        kind = type(module).__name__
        if isinstance(module, _BatchNorm) and (module.training or module.running_mean is None):
            way = "call `model.eval()`" if module.training else "let it track running statistics"
            raise ValueError(
                f"`model` must treat every sample alone: layer {name!r}, a {kind}, takes mean and variance from the "
                f"batch, so no sample has a margin or a Jacobian of its own; {way}."
            )
        drops = module.p if isinstance(module, _DropoutNd) else getattr(module, "dropout", 0.0)
        if module.training and isinstance(drops, float) and drops > 0:
            raise ValueError(
                f"`model` must be in eval mode: layer {name!r}, a {kind}, drops units at random, and a certificate of "
                "one draw would say nothing of the next; call `model.eval()`."
            )
