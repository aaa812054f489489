"""Blurs and noise once more, one pixel at a time, with nothing but the definition."""

import math

import torch
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
