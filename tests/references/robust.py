"""Robust margins by looking everywhere, and those of linear models in closed form."""

import itertools

import torch
from torch import Tensor, nn


def grid_margin(model: nn.Module, inputs: Tensor, labels: Tensor, *, radius: float, norm: str, per_axis: int) -> Tensor:
    """The lowest margin [N] on a dense grid of the ball; above the robust margin by what lies between the points."""
    axis = torch.linspace(-radius, radius, per_axis, dtype=torch.float64)
    shifts = torch.cartesian_prod(*[axis] * inputs.shape[1]).view(-1, inputs.shape[1])
    if norm == "l2":
        length = shifts.norm(dim=1, keepdim=True)
        shifts = shifts * (radius / length.clamp(min=1e-300)).clamp(max=1)  # corners fall on the sphere
    lowest = []
    with torch.no_grad():
        for point, label in zip(inputs, labels, strict=True):
            logits = model(point + shifts)
            others = torch.cat([logits[:, :label], logits[:, label + 1 :]], dim=1)
            lowest.append((logits[:, label] - others.amax(dim=1)).min())
    return torch.stack(lowest)


def linear_margin(weight: Tensor, bias: Tensor, inputs: Tensor, labels: Tensor, *, radius: float, norm: str) -> Tensor:
    """min_j (z_y - z_j) - radius ||w_y - w_j||_dual, exactly the robust margin [N] of logits W x + b."""
    dual = {"l2": 2, "linf": 1}[norm]
    lowest = []
    for point, label in zip(inputs.flatten(1), labels.tolist(), strict=True):
        z = weight @ point + bias
        rivals = [j for j in range(len(z)) if j != label]
        lowest.append(min(z[label] - z[j] - radius * (weight[label] - weight[j]).norm(p=dual) for j in rivals))
    return torch.stack(lowest)


def brute_bottleneck(distances: Tensor) -> float:
    """The least over all permutations of the largest distance moved."""
    n = len(distances)
    return min(max(float(distances[i, p[i]]) for i in range(n)) for p in itertools.permutations(range(n)))
