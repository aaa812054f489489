"""Blurs and noise once more, one pixel at a time, with nothing but the definition."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def motion_blur(image: Tensor, radius: int, sigma: float, angle: float) -> Tensor:
    """One image [C, H, W] in float64."""
    height, width = image.shape[1:]
    weights = [math.exp(-(i**2) / (2 * sigma**2)) for i in range(2 * radius + 1)]
    out = torch.zeros_like(image)
    for i, weight in enumerate(weights):
        dx, dy = -math.ceil(i * math.cos(angle) - 0.5), -math.ceil(i * math.sin(angle) - 0.5)
        if abs(dx) >= width or abs(dy) >= height:
            break
        for row in range(height):
            for column in range(width):
                above, before = min(max(row - dy, 0), height - 1), min(max(column - dx, 0), width - 1)
                out[:, row, column] += weight / sum(weights) * image[:, above, before]
    return out


def correlated(image: Tensor, kernel: Tensor) -> Tensor:
    """One image [C, H, W] under an odd square kernel, reflected at the border without repeating the border pixel."""
    height, width = image.shape[1:]
    half = kernel.shape[0] // 2
    out = torch.zeros_like(image)
    for row in range(height):
        for column in range(width):
            for i in range(-half, half + 1):
                for j in range(-half, half + 1):
                    above, before = _mirrored(row + i, height), _mirrored(column + j, width)
                    out[:, row, column] += kernel[i + half, j + half] * image[:, above, before]
    return out


def _mirrored(place: int, size: int) -> int:
    place = abs(place)
    return place if place < size else 2 * (size - 1) - place


def canny(image: NDArray[np.float64], low: float, high: float) -> NDArray[np.bool_]:
    """Edges of an image [H, W], pixel by pixel."""
    height, width = image.shape
    near = np.pad(image, 1, mode="edge")
    size, ways = np.zeros((height + 2, width + 2)), np.zeros((height, width), dtype=int)
    steps = [((0, -1), (0, 1)), ((-1, 0), (1, 0)), ((-1, -1), (1, 1)), ((-1, 1), (1, -1))]
    for y in range(height):
        for x in range(width):
            a = near[y : y + 3, x : x + 3]
            dx = a[0, 2] + 2 * a[1, 2] + a[2, 2] - a[0, 0] - 2 * a[1, 0] - a[2, 0]
            dy = a[2, 0] + 2 * a[2, 1] + a[2, 2] - a[0, 0] - 2 * a[0, 1] - a[0, 2]
            size[y + 1, x + 1] = abs(dx) + abs(dy)
            tangent = np.tan(np.pi / 8)
            flat, steep = abs(dy) < tangent * abs(dx), abs(dx) < tangent * abs(dy)
            ways[y, x] = 0 if flat else 1 if steep else 2 if dx * dy >= 0 else 3
    weak = []
    for y in range(height):
        for x in range(width):
            (ay, ax), (by, bx) = steps[ways[y, x]]
            own, one, other = size[y + 1, x + 1], size[y + 1 + ay, x + 1 + ax], size[y + 1 + by, x + 1 + bx]
            if own > low and own > one and (own > other or (own == other and ways[y, x] < 2)):
                weak.append((y, x))
    found = {place for place in weak if size[place[0] + 1, place[1] + 1] > high}
    grown = True
    while grown:
        more = {p for p in weak if p not in found and any(abs(p[0] - q[0]) < 2 and abs(p[1] - q[1]) < 2 for q in found)}
        grown = bool(more)
        found |= more
    out = np.zeros(image.shape, dtype=bool)
    for place in found:
        out[place] = True
    return out
