"""Sums over all pairs of classes, in bounded memory."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

_ENTRIES = 2**20  # looked at together
_FACTORS = 64  # of at least a half each, whose product float32 can hold


def pair_sum(values: Tensor) -> Tensor:
    r"""Sum over all j, k of ln(2 cosh((x_j - x_k) / 2)), of each row of [N, K]; twice differentiable.

    That is -1/2 (ln s(d) + ln s(-d)) with d = x_j - x_k and s the logistic function. Nothing of size K^2 is kept for
    the gradients: the first is found on the way, the second goes over the pairs again.

    >>> round(pair_sum(torch.tensor([[0.0, 0.0]])).item(), 4)  # 4 ln 2
    2.7726
    """
    total: Tensor = _Sum.apply(values)[0]  # type: ignore[no-untyped-call]
    return total  # [N]


def _blocks(values: Tensor, *, half: bool) -> Iterator[tuple[int, int, Tensor]]:
    """Differences x_j - x_k [N, j, k] for some j at a time and every k, or `half`: those from the first j on.

    With the first j and their number. Half of the pairs will do where the other half follows by symmetry.
    """
    most = values.shape[1]
    count = max(1, min(_ENTRIES // max(1, values.numel()), -(-most // 8), _FACTORS))  # in eighths, to spare pairs
    for start in range(0, most, count):
        size = min(count, most - start)
        rest = values[:, start if half else 0 :]
        yield start, size, values[:, start : start + size, None] - rest[:, None, :]


class _Sum(torch.autograd.Function):
    """The sum [N], and its derivative in x_j, sum_k tanh((x_j - x_k) / 2), [N, K].

    With s = 1 / (1 + e^-d): ln(2 cosh(d / 2)) = |d| / 2 - ln max(s, 1 - s), and tanh(d / 2) = 2 s - 1. One exponential
    serves both, and one logarithm many pairs.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor) -> tuple[Tensor, Tensor]:
        total, slope = torch.zeros_like(values[:, 0]), torch.zeros_like(values)
        for start, size, gap in _blocks(values, half=True):
            share = gap.sigmoid()
            factors = torch.maximum(share, 1 - share)
            terms = gap.abs().sum(dim=1) / 2 - factors.prod(dim=1).log()
            total = total + terms[:, :size].sum(dim=1) + 2 * terms[:, size:].sum(dim=1)
            own = 2 * share.sum(dim=2) - share.shape[2]
            later = size - 2 * share[:, :, size:].sum(dim=1)
            slope = slope + F.pad(torch.cat([own, later], dim=1), (start, 0))
        return total, slope

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*inputs, output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Tensor | None:
        values, slope = ctx.saved_tensors
        of_total, of_slope = grads
        first = None if of_total is None else of_total.unsqueeze(1) * slope
        if of_slope is None:
            return first
        second = _bent(values, of_slope)
        return second if first is None else first + second


def _bent(values: Tensor, grad: Tensor) -> Tensor:
    """The second derivatives times a vector [N, K] for each row."""
    parts = []
    for start, size, gap in _blocks(values, half=False):
        bend = (1 - (gap / 2).tanh().square()) / 2
        own = grad.narrow(1, start, size)  # the vmap of batched gradients knows no `grad[:, ...]`
        parts.append(own * bend.sum(dim=2) - (bend * grad.unsqueeze(1)).sum(dim=2))
    return torch.cat(parts, dim=1)
