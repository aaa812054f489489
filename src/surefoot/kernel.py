"""Sums over all pairs under a Laplacian kernel in O(N log N)."""

import torch
from torch import Tensor

_LARGEST_EXPONENT = 500.0  # exp of it is far from overflow in float64, and 500 nu covers [0, 1] for nu >= 0.002


def laplacian_pair_sum(points: Tensor, weights: Tensor, *, nu: float) -> Tensor:
    r"""Sum over all i, j of w_i w_j exp(-|x_i - x_j| / nu), exactly, in O(N log N).

    With x sorted, the sum over i < j is w_j S_j with S_j = sum_{i<j} w_i exp(-(x_j - x_i) / nu), and S obeys a
    linear recurrence: a cumulative sum of w exp(x / nu) where that cannot overflow, an associative scan where it
    could. float64 in, float64 out; stable for every nu > 0, and differentiable.

    >>> laplacian_pair_sum(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 2.0]), nu=0.2).item()
    9.0
    """
    if not nu > 0:
        raise ValueError(f"`nu` must be positive, got {nu}.")
    points, order = points.double().sort()
    weights = weights.double()[order]
    reach = float((points[-1] - points[0]).detach()) / nu if points.device.type != "meta" else 0.0
    if reach <= _LARGEST_EXPONENT:
        growth = ((points - points[0]) / nu).exp()
        below = (weights * growth).cumsum(0) / growth - weights
    else:
        below = _decayed_cumsum(weights, decay=(-points.diff() / nu).exp()) - weights
    return (weights * weights).sum() + 2 * (weights * below).sum()


def _decayed_cumsum(weights: Tensor, *, decay: Tensor) -> Tensor:
    total = weights.clone()  # [N], covers the last 1, 2, 4, ... samples
    factor = torch.cat([decay.new_zeros(1), decay])  # [N], decay over the same stretch; nothing precedes sample 0
    stride = 1
    while stride < len(weights):
        total, factor = (
            torch.cat([total[:stride], total[stride:] + factor[stride:] * total[:-stride]]),
            torch.cat([factor[:stride], factor[stride:] * factor[:-stride]]),
        )
        stride *= 2
    return total
