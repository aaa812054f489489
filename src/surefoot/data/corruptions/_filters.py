"""Images under a small kernel."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def filtered(images: Tensor, kernel: Tensor, *, border: str = "reflect") -> Tensor:
    """Every channel correlated with a kernel [h, w] of odd sides; beyond the border, `reflect` or `replicate` it.

    `reflect` does not repeat the pixel of the border. All channels of all images are taken as channels of one image,
    for which torch is an order of magnitude faster than for many images of one channel.
    """
    n, channels, height, width = images.shape
    up, left = kernel.shape[0] // 2, kernel.shape[1] // 2
    padded = F.pad(images, (left, left, up, up), mode=border)
    planes = padded.reshape(1, n * channels, height + 2 * up, width + 2 * left)
    if n * channels == 1:  # alone it would go through another routine, which rounds differently
        planes = planes.expand(1, 2, -1, -1)
    kernels = kernel.to(images.dtype).expand(planes.shape[1], 1, *kernel.shape)
    planes_filtered = F.conv2d(planes, kernels, groups=planes.shape[1])[:, : n * channels]
    return planes_filtered.reshape(n, channels, height, width)


def gaussian(reach: int, sigma: float) -> Tensor:
    """Normalised weights exp(-i^2 / 2 sigma^2) of i = -reach..reach, float64."""
    steps = torch.arange(-reach, reach + 1, dtype=torch.float64)
    weights = (-(steps**2) / (2 * sigma**2)).exp()
    return weights / weights.sum()


def gaussian_blurred(images: Tensor, sigma: float) -> Tensor:
    """Blurred by a Gaussian cut off at four deviations, the border replicated."""
    taps = gaussian(math.floor(4 * sigma + 0.5), sigma)
    return filtered(filtered(images, taps[None], border="replicate"), taps[:, None], border="replicate")
