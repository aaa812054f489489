"""What a second pass over the same batch must leave alone, without being told the model.

An optimizer knows parameters, not modules; hooks on all modules show which ones a closure runs.
"""

from collections.abc import Container, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel


@contextmanager
def statistics_kept(params: Container[Tensor]) -> Iterator[None]:
    """Running statistics of normalisation layers that run inside the block are those from before it afterwards.

    Of models with some of `params` only. All layers of the outermost module that is called count, because a compiled
    model does not call its inner ones in a way that hooks see.
    """
    kept: dict[nn.Module, list[tuple[Tensor, Tensor]]] = {}
    seen: set[nn.Module] = set()

    def remember(module: nn.Module, inputs: Any) -> None:
        if torch.compiler.is_compiling() or module in seen:  # the outermost module has been here before it is traced
            return
        own = list(module.parameters())
        if own and not any(p in params for p in own):
            return
        for inner in module.modules():
            if inner not in seen and isinstance(inner, _NormBase) and inner.training:
                kept[inner] = [(buffer, buffer.detach().clone()) for buffer in inner.buffers(recurse=False)]
            seen.add(inner)

    handle = register_module_forward_pre_hook(remember)
    try:
        yield
    finally:
        handle.remove()
        with torch.no_grad():
            for buffers in kept.values():
                for buffer, before in buffers:
                    buffer.copy_(before)


@contextmanager
def gradients_kept_local() -> Iterator[None]:
    """Modules under `DistributedDataParallel` that run inside the block do not average gradients over processes."""
    silenced: dict[DistributedDataParallel, bool] = {}

    def silence(module: nn.Module, inputs: Any) -> None:
        if torch.compiler.is_compiling():
            return
        if isinstance(module, DistributedDataParallel) and module not in silenced:
            silenced[module] = module.require_backward_grad_sync
            module.require_backward_grad_sync = False

    handle = register_module_forward_pre_hook(silence)
    try:
        yield
    finally:
        handle.remove()
        for module, before in silenced.items():
            module.require_backward_grad_sync = before
