"""Stretched and sheared as a whole, then bent here and there."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from surefoot.data.corruptions._corruption import Corruption
from surefoot.data.corruptions._filters import gaussian
from surefoot.data.corruptions._philox_draws import PhiloxDraws


def elastic_transform(images: Tensor, strengths: tuple[float, float, float], draws: PhiloxDraws) -> Tensor:
    """Three corners of a square moved at random, and all with them; then each pixel by smooth random amounts.

    `strengths`, as shares of the shorter side: size of the smooth amounts, deviation of their smoothing, largest move
    of a corner.
    """
    side = min(images.shape[-2:])
    size, sigma, move = (part * side for part in strengths)
    sheared = _sampled(images, _affine(images, move, draws), corners=True)
    if size == 0:
        return sheared
    rows, columns = _grid(images)
    down, across = (size * _smooth(2 * draws.uniform(*images.shape[-2:]) - 1, sigma).to(images.dtype) for _ in range(2))
    return _sampled(sheared, torch.stack([columns + across, rows + down], dim=-1), corners=False)


def _affine(images: Tensor, move: float, draws: PhiloxDraws) -> Tensor:
    """Where each pixel comes from, (x, y) [N, H, W, 2]."""
    height, width = images.shape[-2:]
    middle = torch.tensor([height // 2, width // 2], dtype=torch.float64)
    reach = min(height, width) // 3
    corners = middle + reach * torch.tensor([[1, 1], [1, -1], [-1, -1]], dtype=torch.float64)
    moved = corners + move * (2 * draws.uniform(3, 2).double() - 1)  # [N, 3, 2]
    ones = torch.ones(len(images), 3, 1, dtype=torch.float64)
    back = torch.linalg.solve(torch.cat([moved, ones], dim=2), corners.expand(len(images), 3, 2))  # [N, 3, 2]
    rows, columns = (part.double()[None, :, :, None] for part in _grid(images))
    a, b, c = (back[:, None, None, k] for k in range(3))
    sources: Tensor = columns * a + rows * b + c
    return sources.to(images.dtype)


def _grid(images: Tensor) -> tuple[Tensor, Tensor]:
    sides = (torch.arange(side, dtype=images.dtype) for side in images.shape[-2:])
    rows, columns = torch.meshgrid(*sides, indexing="ij")
    return rows, columns


def _sampled(images: Tensor, places: Tensor, *, corners: bool) -> Tensor:
    """The images at (x, y) places, interpolated linearly; beyond the border mirrored at pixels' centres or edges."""
    size = torch.tensor(images.shape[:1:-1], dtype=images.dtype)  # W, H
    relative = 2 * places / (size - 1) - 1 if corners else (2 * places + 1) / size - 1
    return F.grid_sample(images, relative, mode="bilinear", padding_mode="reflection", align_corners=corners)


def _smooth(fields: Tensor, sigma: float) -> Tensor:
    """Blurred by a Gaussian cut off at three deviations, mirrored at the border's edge, float64."""
    fields = fields.double()
    taps = gaussian(math.floor(3 * sigma + 0.5), sigma)
    for dim in (1, 2):
        side, reach = fields.shape[dim], len(taps) // 2
        around = torch.arange(-reach, side + reach) % (2 * side)
        mirrored = torch.where(around < side, around, 2 * side - 1 - around)
        fields = (fields.index_select(dim, mirrored).unfold(dim, len(taps), 1) * taps).sum(dim=-1)
    return fields


ELASTIC_TRANSFORM = Corruption(
    elastic_transform,
    cifar=((0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)),
    tiny=((0, 0, 0.08), (0.05, 0.3, 0.06), (0.1, 0.08, 0.06), (0.1, 0.03, 0.03), (0.16, 0.03, 0.02)),
    imagenet=tuple(
        tuple(share * 244 / 224 for share in shares)  # ImageNet-C took 244 for the side of 224
        for shares in ((2, 0.7, 0.1), (2, 0.08, 0.2), (0.05, 0.01, 0.02), (0.07, 0.01, 0.02), (0.12, 0.01, 0.02))
    ),
)
