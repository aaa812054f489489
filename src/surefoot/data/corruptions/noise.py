"""Noise of a camera: at every value, the same everywhere or more where it is bright."""

import torch
from torch import Tensor

from surefoot.data.corruptions._corruption import Corruption
from surefoot.data.corruptions._philox_draws import PhiloxDraws


def gaussian_noise(images: Tensor, deviation: float, draws: PhiloxDraws) -> Tensor:
    """Normal noise of one deviation added to every value."""
    return images + deviation * draws.normal(*images.shape[1:])


def speckle_noise(images: Tensor, deviation: float, draws: PhiloxDraws) -> Tensor:
    """Normal noise added that is proportional to the value."""
    return images + images * (deviation * draws.normal(*images.shape[1:]))


def shot_noise(images: Tensor, photons: float, draws: PhiloxDraws) -> Tensor:
    """Poisson counts of which a value of 1 has `photons` on average, divided by that."""
    counts = [random.poisson(rate) for rate, random in zip((images * photons).numpy(), draws.generators(), strict=True)]
    return torch.stack([torch.from_numpy(count) for count in counts]).to(images.dtype) / photons


GAUSSIAN_NOISE = Corruption(
    gaussian_noise,
    cifar=(0.04, 0.06, 0.08, 0.09, 0.10),
    tiny=(0.04, 0.08, 0.12, 0.15, 0.18),
    imagenet=(0.08, 0.12, 0.18, 0.26, 0.38),
)
SHOT_NOISE = Corruption(
    shot_noise, cifar=(500, 250, 100, 75, 50), tiny=(250, 100, 50, 30, 15), imagenet=(60, 25, 12, 5, 3)
)
SPECKLE_NOISE = Corruption(
    speckle_noise,
    cifar=(0.06, 0.1, 0.12, 0.16, 0.2),
    tiny=(0.15, 0.2, 0.25, 0.3, 0.35),
    imagenet=(0.15, 0.2, 0.35, 0.45, 0.6),
)
