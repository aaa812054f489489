"""Batch norm statistics of weights that were never trained."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm

from surefoot.eval_mode import evaluating


def has_statistics(model: nn.Module) -> bool:
    """Whether a batch norm layer keeps running statistics."""
    return bool(_norms(model))


@torch.no_grad()
def buffers_at(model: nn.Module, weights: dict[str, Tensor], batches: Iterable[Any]) -> dict[str, Tensor]:
    """The model's buffers, with batch norm statistics re-estimated over all `batches` at other weights.

    A batch is its inputs, or a pair of inputs and labels. Means and variances of batches are averaged by their sizes.
    All but batch norm is in eval mode. The model itself is left alone.
    """
    buffers = {name: buffer.detach().clone() for name, buffer in model.named_buffers()}
    norms = _norms(model)
    if not norms:
        return buffers
    like = next(iter(weights.values()))
    before = [(norm, norm.momentum) for norm in norms]
    number = 0
    try:
        with evaluating(model):
            for norm in norms:
                norm.training = True
            for batch in batches:
                inputs = batch if isinstance(batch, Tensor) else batch[0]
                number += len(inputs)
                for norm in norms:
                    norm.momentum = len(inputs) / number  # 1 at first: what was before is forgotten
                moved = inputs.to(like) if inputs.is_floating_point() else inputs.to(like.device)
                functional_call(model, {**weights, **buffers}, (moved,))
    finally:
        for norm, momentum in before:
            norm.momentum = momentum
    if not number:
        raise ValueError("`batches` must hold training inputs to estimate batch norm statistics from, got none.")
    return buffers


def _norms(model: nn.Module) -> list[_BatchNorm]:
    return [m for m in model.modules() if isinstance(m, _BatchNorm) and m.running_mean is not None]
