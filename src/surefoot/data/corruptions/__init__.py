"""Corruptions of images after CIFAR-10-C: five severities, the same for an image whatever it comes with."""

import torch
from torch import Tensor

from surefoot.data.corruptions._corruption import SIZES, Corruption, size_of
from surefoot.data.corruptions._philox_draws import PhiloxDraws
from surefoot.data.corruptions.colour import BRIGHTNESS, CONTRAST, SATURATE
from surefoot.data.corruptions.defocus_blur import DEFOCUS_BLUR
from surefoot.data.corruptions.elastic_transform import ELASTIC_TRANSFORM
from surefoot.data.corruptions.fog import FOG
from surefoot.data.corruptions.gaussian_blur import GAUSSIAN_BLUR
from surefoot.data.corruptions.glass_blur import GLASS_BLUR
from surefoot.data.corruptions.impulse_noise import IMPULSE_NOISE
from surefoot.data.corruptions.jpeg_compression import JPEG_COMPRESSION
from surefoot.data.corruptions.motion_blur import MOTION_BLUR
from surefoot.data.corruptions.noise import GAUSSIAN_NOISE, SHOT_NOISE, SPECKLE_NOISE
from surefoot.data.corruptions.pixelate import PIXELATE
from surefoot.data.corruptions.snow import SNOW
from surefoot.data.corruptions.spatter import SPATTER
from surefoot.data.corruptions.zoom_blur import ZOOM_BLUR
from surefoot.registry import look_up

CORRUPTIONS: dict[str, Corruption] = {
    "gaussian_noise": GAUSSIAN_NOISE,
    "shot_noise": SHOT_NOISE,
    "impulse_noise": IMPULSE_NOISE,
    "speckle_noise": SPECKLE_NOISE,
    "defocus_blur": DEFOCUS_BLUR,
    "glass_blur": GLASS_BLUR,
    "motion_blur": MOTION_BLUR,
    "zoom_blur": ZOOM_BLUR,
    "gaussian_blur": GAUSSIAN_BLUR,
    "snow": SNOW,
    "fog": FOG,
    "spatter": SPATTER,
    "brightness": BRIGHTNESS,
    "contrast": CONTRAST,
    "saturate": SATURATE,
    "elastic_transform": ELASTIC_TRANSFORM,
    "pixelate": PIXELATE,
    "jpeg_compression": JPEG_COMPRESSION,
}

_PIXELS_AT_ONCE = 2**20
_SLACK = 2.0**-10  # rounding errors of a float32 sum are smaller, steps of 8 bits a thousand times larger


def corrupted(
    images: Tensor,
    corruption: str,
    *,
    severity: int,
    seed: int = 0,
    indices: Tensor | None = None,
    constants: str = "by size",
) -> Tensor:
    """The images [N, C, H, W], spoiled: uint8 in 0..255 or floating point in [0, 1], and so is what comes back.

    What is drawn at random for an image depends on `seed`, `severity` and its index only, which is its place in the
    batch unless `indices` [N] says otherwise. uint8 results are truncated, as in CIFAR-10-C, but for a slack of 2^-10
    that keeps rounding errors from taking one off. `constants` are those of cifar, tiny or imagenet; by size: up to 32
    pixels on the shorter side, up to 64, beyond.

    >>> images = torch.full((2, 3, 32, 32), 200, dtype=torch.uint8)
    >>> corrupted(images, "defocus_blur", severity=5).unique().tolist()
    [200]
    """
    chosen = look_up("corruption", corruption, CORRUPTIONS)
    if severity not in (1, 2, 3, 4, 5):
        raise ValueError(f"`severity` must be 1, 2, 3, 4 or 5, got {severity}.")
    places = _checked(images, indices)
    if constants != "by size" and constants not in SIZES:
        raise ValueError(f"`constants` must be by size, {', '.join(SIZES[:-1])} or {SIZES[-1]}, got {constants!r}.")
    size = constants if constants != "by size" else size_of(*images.shape[-2:])
    at_once = max(1, _PIXELS_AT_ONCE // images[0].numel())
    out = torch.empty_like(images)
    for start in range(0, len(images), at_once):
        part = images[start : start + at_once].contiguous()  # in another layout, sums may round differently
        whole = part.dtype == torch.uint8 and not chosen.takes_bytes
        given = part.float().div_(255) if whole else part
        draws = PhiloxDraws(seed=seed, purpose=f"{corruption} {severity}", indices=places[start : start + at_once])
        spoiled = chosen.apply(given, chosen.constants(severity, size=size), draws)
        if spoiled.is_floating_point():
            spoiled.clamp_(0, 1)
        out[start : start + at_once] = spoiled.mul_(255).add_(_SLACK) if whole else spoiled
    return out


def _checked(images: Tensor, indices: Tensor | None) -> Tensor:
    if images.ndim != 4 or 0 in images.shape:
        raise ValueError(f"`images` must have the shape [N, C, H, W], none of them 0, got {list(images.shape)}.")
    if images.dtype != torch.uint8 and not images.is_floating_point():
        raise ValueError(f"`images` must be uint8 or floating point, got {images.dtype}.")
    if images.is_floating_point():
        low, high = (float(bound) for bound in images.aminmax())
        if not (low >= 0 and high <= 1):
            raise ValueError(
                f"`images` in floating point must lie in [0, 1], got values from {low:.4g} to {high:.4g}; "
                "corrupt images before they are standardised."
            )
    if indices is None:
        return torch.arange(len(images))
    if indices.shape != images.shape[:1] or indices.is_floating_point() or bool((indices < 0).any()):
        raise ValueError(f"`indices` must be {len(images)} integers of at least 0, got {list(indices.shape)}.")
    return indices


__all__ = ["CORRUPTIONS", "Corruption", "corrupted"]
