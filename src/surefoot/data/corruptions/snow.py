"""Snow, driven by the wind."""

import torch
from torch import Tensor

from surefoot.data.corruptions._corruption import Corruption
from surefoot.data.corruptions._philox_draws import PhiloxDraws
from surefoot.data.corruptions.motion_blur import smeared, taps
from surefoot.data.corruptions.zoom_blur import enlarged

_GREY = (0.299, 0.587, 0.114)

Constants = tuple[float, float, float, float, int, float, float]


def snow(images: Tensor, constants: Constants, draws: PhiloxDraws) -> Tensor:
    """The image whitened, and flakes added: normal noise, enlarged, of which the largest are kept and smeared.

    `constants`: the noise's mean and deviation, how far it is enlarged, the least that is a flake, radius and deviation
    of the smear, and the share of the image that stays as it is. The flakes come a second time, turned by 180 degrees.
    """
    mean, deviation, factor, least, radius, sigma, kept = constants
    noise = mean + deviation * draws.normal(1, *images.shape[-2:]).to(images.dtype)
    flakes = enlarged(noise, factor) if factor > 1 else noise
    flakes = torch.where(flakes < least, 0.0, flakes).clamp(0, 1)
    flakes = smeared(flakes, taps(radius, sigma), draws.angles(-135, -45))
    grey = images
    if images.shape[1] == 3:
        grey = sum(share * images[:, k : k + 1] for k, share in enumerate(_GREY))  # type: ignore[assignment]
    whitened = kept * images + (1 - kept) * torch.maximum(images, 1.5 * grey + 0.5)
    return whitened + flakes + flakes.flip(2, 3)


SNOW = Corruption(
    snow,
    cifar=(
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
    tiny=(
        (0.1, 0.2, 1, 0.6, 8, 3, 0.8),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.8),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.7),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.65),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.6),
    ),
    imagenet=(
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    ),
)
