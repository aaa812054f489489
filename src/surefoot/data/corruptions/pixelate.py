"""Fewer, larger pixels."""

import torch
from torch import Tensor

from surefoot.data.corruptions._corruption import Corruption
from surefoot.data.corruptions._philox_draws import PhiloxDraws


def pixelate(images: Tensor, factor: float, draws: PhiloxDraws) -> Tensor:
    """Made smaller by `factor`, each pixel the mean of those in its place, and large again, each from the nearest."""
    out = images.double()  # in which the order of a sum does not show
    for dim in (2, 3):
        side = images.shape[dim]
        small = max(1, int(side * factor))
        there_and_back = boxes(side, small) @ boxes(small, side)
        out = torch.tensordot(out, there_and_back, dims=([dim], [0])).movedim(-1, dim)
    return out.to(images.dtype)


def boxes(before: int, after: int) -> Tensor:
    """What each of `before` pixels adds to each of `after`, [before, after]: equal shares of those in its box."""
    scale = before / after
    middle = (torch.arange(after, dtype=torch.float64) + 0.5) * scale
    half = max(scale, 1.0) / 2
    place = torch.arange(before, dtype=torch.float64)[:, None] + 0.5
    inside = ((place - middle > -half) & (place - middle <= half)).double()
    return inside / inside.sum(dim=0)


PIXELATE = Corruption(
    pixelate,
    cifar=(0.95, 0.9, 0.85, 0.75, 0.65),
    tiny=(0.9, 0.8, 0.7, 0.6, 0.5),
    imagenet=(0.6, 0.5, 0.4, 0.3, 0.25),
)
