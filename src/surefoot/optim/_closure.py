"""Calling a closure, and refusing what it cannot bring."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

Params = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]


class Copied:
    """For optimizers that know more than torch's: copies and pickles hold all of it, but nobody's hooks."""

    _fresh: tuple[str, ...] = ()  # what a copy starts anew

    def __getstate__(self) -> dict[str, Any]:
        left = ("step", *self._fresh)  # a scheduler puts its own `step` there
        return {key: value for key, value in self.__dict__.items() if key not in left and "hook" not in key}


def parameters(optimizer: Optimizer) -> list[Tensor]:
    """All of an optimizer's parameters, in the order of its groups."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def check_real(optimizer: Optimizer) -> None:
    """Raise ValueError if a parameter is complex."""
    for p in parameters(optimizer):
        if p.is_complex():
            raise ValueError(f"Parameters must be real, got one of dtype {p.dtype}.")


def run(closure: Callable[[], Any], optimizer: Optimizer) -> Any:
    """The closure's loss, called with gradients cleared. ValueError if it leaves none or sparse ones."""
    optimizer.zero_grad()
    with torch.enable_grad():
        loss = closure()
    check_gradients(optimizer)
    return loss


def check_gradients(optimizer: Optimizer) -> None:
    """Raise ValueError unless there are gradients, all dense."""
    gradients = [p.grad for p in parameters(optimizer) if p.grad is not None]
    if not gradients:
        raise ValueError("The closure must call backward: no parameter has a gradient after it.")
    if any(gradient.is_sparse for gradient in gradients):
        raise ValueError(f"{type(optimizer).__name__} needs dense gradients, got a sparse one: use `sparse=False`.")
