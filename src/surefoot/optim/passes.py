"""What a second pass over the same batch must leave alone, without being told the model.

An optimizer knows parameters, not modules; hooks on all modules show which ones a closure runs.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel


@contextmanager
def statistics_kept() -> Iterator[None]:
    """Running statistics of normalisation layers that run inside the block are those from before it afterwards."""
    kept: dict[nn.Module, list[tuple[Tensor, Tensor]]] = {}

    def remember(module: nn.Module, inputs: Any) -> None:
        if isinstance(module, _NormBase) and module.training and module not in kept:
            kept[module] = [(buffer, buffer.detach().clone()) for buffer in module.buffers(recurse=False)]

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
