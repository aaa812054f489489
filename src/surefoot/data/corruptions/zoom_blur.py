"""What a camera that moves forward sees."""

import math

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from surefoot.data.corruptions._corruption import Corruption
from surefoot.data.corruptions._philox_draws import PhiloxDraws


def zoom_blur(images: Tensor, most_and_step: tuple[float, float], draws: PhiloxDraws) -> Tensor:
    """The mean of the image and of its enlargements by 1, 1 + step, ... up to `most`.

    By rounding some include `most` itself, as they do in CIFAR-10-C.
    """
    most, step = most_and_step
    factors = np.arange(1, most, step).tolist()
    total = images.clone()
    for factor in factors:
        total += enlarged(images, factor)
    return total / (len(factors) + 1)


def enlarged(images: Tensor, factor: float) -> Tensor:
    """The middle of the image, enlarged linearly to the image's size."""
    sides = images.shape[-2:]
    crop = [math.ceil(side / factor) for side in sides]
    first = [(side - part) // 2 for side, part in zip(sides, crop, strict=True)]
    middle = images[..., first[0] : first[0] + crop[0], first[1] : first[1] + crop[1]]
    size = [max(side, round(part * factor)) for side, part in zip(sides, crop, strict=True)]
    large = F.interpolate(middle, size=size, mode="bilinear", align_corners=True)
    top, left = ((whole - side) // 2 for whole, side in zip(size, sides, strict=True))
    return large[..., top : top + sides[0], left : left + sides[1]].contiguous()


_SMALL = ((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01))
ZOOM_BLUR = Corruption(
    zoom_blur,
    cifar=_SMALL,
    tiny=_SMALL,
    imagenet=((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
)
