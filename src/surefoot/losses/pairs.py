"""Sums over all pairs of classes, in bounded memory."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

_ENTRIES = 2**20  # looked at together


def pair_sum(values: Tensor) -> Tensor:
    r"""Sum over all j, k of ln(2 cosh((x_j - x_k) / 2)), of each row of [N, K]; twice differentiable.

    That is -1/2 (ln s(d) + ln s(-d)) with d = x_j - x_k and s the logistic function. Nothing of size K^2 is kept for
    the gradients, which go over the pairs again.

    >>> round(pair_sum(torch.tensor([[0.0, 0.0]])).item(), 4)  # 4 ln 2
    2.7726
    """
    found: Tensor = _Sum.apply(values)  # type: ignore[no-untyped-call]
    return found  # [N]


def _blocks(values: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Differences x_j - x_k [N, j, K] for some j at a time, and the first j."""
    count = max(1, _ENTRIES // max(1, values.numel()))
    for start in range(0, values.shape[1], count):
        yield start, values[:, start : start + count, None] - values[:, None, :]


class _Sum(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor) -> Tensor:
        parts = []
        for _, gap in _blocks(values):
            size = gap.abs()
            parts.append((size / 2 + torch.log1p(torch.exp(-size))).sum(dim=(1, 2)))
        return torch.stack(parts).sum(dim=0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (values,) = ctx.saved_tensors
        slope: Tensor = _Slope.apply(values)  # type: ignore[no-untyped-call]
        return grads[0].unsqueeze(1) * slope


class _Slope(torch.autograd.Function):
    """sum_k tanh((x_j - x_k) / 2), the derivative in x_j."""

    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor) -> Tensor:
        return torch.cat([(gap / 2).tanh().sum(dim=2) for _, gap in _blocks(values)], dim=1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (values,) = ctx.saved_tensors
        (grad,) = grads
        parts = []
        for start, gap in _blocks(values):
            bend = (1 - (gap / 2).tanh().square()) / 2
            own = grad.narrow(1, start, gap.shape[1])  # the vmap of batched gradients knows no `grad[:, ...]`
            parts.append(own * bend.sum(dim=2) - (bend * grad.unsqueeze(1)).sum(dim=2))
        return torch.cat(parts, dim=1)
