"""Calibrating each class against the rest and putting the results together again."""

import torch
from torch import Tensor


def scores(logits: Tensor) -> Tensor:
    """The logit of each class's probability, log p_k - log(1 - p_k) = z_k - log sum_{j != k} exp z_j, without rounding.

    >>> scores(torch.tensor([[800.0, 0.0]], dtype=torch.float64)).tolist()  # where 1 - p is far below rounding
    [[800.0, -800.0]]
    """
    top = logits.max(dim=1, keepdim=True)
    below = logits - top.values
    weights = below.exp()
    rest = weights.sum(dim=1, keepdim=True) - weights  # at least 1, so exact enough, except for the top class
    others = logits.scatter(1, top.indices, -torch.inf).logsumexp(dim=1, keepdim=True)
    return (below - rest.log()).scatter(1, top.indices, top.values - others)  # [N, K]


def places(edges: Tensor, values: Tensor) -> Tensor:
    """How many edges of its row lie below each value: `torch.searchsorted`, which ONNX does not have.

    In a graph that is being exported, by halving: as many steps as the number of edges has binary digits.

    >>> places(torch.tensor([[0.2, 0.5]]), torch.tensor([[0.1, 0.2, 0.3, 0.9]])).tolist()
    [[0, 0, 1, 2]]
    """
    if not torch.compiler.is_compiling():
        return torch.searchsorted(edges, values)
    place = torch.zeros_like(values, dtype=torch.int64)
    num_edges = edges.shape[1]
    step = 1 << num_edges.bit_length() >> 1
    while step:
        further = place + step
        reached = edges.gather(1, (further - 1).clamp(max=num_edges - 1))
        place = torch.where((further <= num_edges) & (reached < values), further, place)
        step >>= 1
    return place


def floor(num_samples: int, num_classes: int) -> float:
    """1 / ((N + 1) K): N samples cannot tell a smaller probability from 0, and K such add next to nothing."""
    return 1 / ((num_samples + 1) * num_classes)


def renormalised(calibrated: Tensor, probabilities: Tensor, *, floor: float) -> Tensor:
    """Log of the calibrated probabilities of each class, made to sum to 1 and then floored.

    Rows where every class got 0 keep the original probabilities.
    """
    total = calibrated.sum(dim=1, keepdim=True)
    shares = torch.where(total > 0, calibrated / total.clamp(min=torch.finfo(total.dtype).tiny), probabilities)
    return shares.clamp(min=floor).log()  # [N, K]
