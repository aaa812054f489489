"""Brightness, contrast and saturation."""

import torch
from torch import Tensor

from surefoot.data.corruptions._corruption import Corruption
from surefoot.data.corruptions._philox_draws import PhiloxDraws


def brightness(images: Tensor, added: float, draws: PhiloxDraws) -> Tensor:
    """The largest channel of each pixel raised, hue and saturation kept; black becomes grey."""
    value = images.amax(dim=1, keepdim=True)
    raised = (value + added).clamp(max=1)
    return torch.where(value > 0, images * (raised / value.clamp(min=1e-12)), raised)


def contrast(images: Tensor, factor: float, draws: PhiloxDraws) -> Tensor:
    """The distance of every value from its channel's mean over the image, times `factor`."""
    mean = images.mean(dim=(2, 3), keepdim=True, dtype=torch.float64).to(images.dtype)
    return (images - mean) * factor + mean


def saturate(images: Tensor, factor_and_added: tuple[float, float], draws: PhiloxDraws) -> Tensor:
    """The saturation times a factor and raised, hue and largest channel kept; grey, which has no hue, turns red."""
    if images.shape[1] != 3:
        raise ValueError(f"saturate needs images of 3 channels, got {images.shape[1]}.")
    factor, added = factor_and_added
    value = images.amax(dim=1, keepdim=True)
    spread = value - images.amin(dim=1, keepdim=True)
    saturation = torch.where(value > 0, spread / value.clamp(min=1e-12), 0.0)
    changed = (factor * saturation + added).clamp(0, 1)
    red = torch.tensor([0.0, 1.0, 1.0], dtype=images.dtype).view(1, 3, 1, 1)
    share = torch.where(spread > 0, (value - images) / spread.clamp(min=1e-12), red)
    return value - value * changed * share


BRIGHTNESS = Corruption(
    brightness, cifar=(0.05, 0.1, 0.15, 0.2, 0.3), tiny=(0.1, 0.2, 0.3, 0.4, 0.5), imagenet=(0.1, 0.2, 0.3, 0.4, 0.5)
)
CONTRAST = Corruption(
    contrast, cifar=(0.75, 0.5, 0.4, 0.3, 0.15), tiny=(0.4, 0.3, 0.2, 0.1, 0.05), imagenet=(0.4, 0.3, 0.2, 0.1, 0.05)
)
SATURATE = Corruption(
    saturate,
    cifar=((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
    tiny=((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (30, 0.2)),
    imagenet=((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),
)
