"""Sums over all pairs of classes, in bounded memory."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

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


def _blocks(values: Tensor, *, half: bool) -> Iterator[tuple[int, int, Tensor]]:
    """Differences x_j - x_k [N, j, k] for some j at a time and every k, or `half`: those from the first j on.

    With the first j and their number. Half of the pairs will do where the other half follows by symmetry.
    """
    most = values.shape[1]
    count = max(1, min(_ENTRIES // max(1, values.numel()), -(-most // 8)))  # in eighths at least, to spare pairs
    for start in range(0, most, count):
        size = min(count, most - start)
        rest = values[:, start if half else 0 :]
        yield start, size, values[:, start : start + size, None] - rest[:, None, :]


class _Sum(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor) -> Tensor:
        total = torch.zeros_like(values[:, 0])
        for _, size, gap in _blocks(values, half=True):
            width = gap.abs()
            found = (width / 2 + torch.log1p(torch.exp(-width))).sum(dim=1)
            total = total + found[:, :size].sum(dim=1) + 2 * found[:, size:].sum(dim=1)
        return total

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
        total = torch.zeros_like(values)
        for start, size, gap in _blocks(values, half=True):
            pull = (gap / 2).tanh()
            later = pull[:, :, size:].sum(dim=1)
            total = total + F.pad(torch.cat([pull.sum(dim=2), -later], dim=1), (start, 0))
        return total

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (values,) = ctx.saved_tensors
        (grad,) = grads
        parts = []
        for start, size, gap in _blocks(values, half=False):
            bend = (1 - (gap / 2).tanh().square()) / 2
            own = grad.narrow(1, start, size)  # the vmap of batched gradients knows no `grad[:, ...]`
            parts.append(own * bend.sum(dim=2) - (bend * grad.unsqueeze(1)).sum(dim=2))
        return torch.cat(parts, dim=1)
