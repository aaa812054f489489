"""Fog, thicker here and thinner there."""

import torch
from torch import Tensor

from surefoot.data.corruptions._corruption import Corruption
from surefoot.data.corruptions._philox_draws import PhiloxDraws


def fog(images: Tensor, thickness_and_decay: tuple[float, float], draws: PhiloxDraws) -> Tensor:
    """A cloud of the given thickness added, and the whole scaled back to the image's brightest value."""
    thickness, decay = thickness_and_decay
    height, width = images.shape[-2:]
    size = 1 << (max(height, width) - 1).bit_length()
    cloud = plasma(len(images), size, decay, draws)[:, None, :height, :width].to(images.dtype)
    brightest = images.amax(dim=(1, 2, 3), keepdim=True)
    return (images + thickness * cloud) * (brightest / (brightest + thickness))


def plasma(num: int, size: int, decay: float, draws: PhiloxDraws) -> Tensor:
    """Fractal clouds [num, size, size] in [0, 1] by the diamond-square algorithm, on a torus; `size` a power of two.

    Midpoints of squares, then of their edges, are the mean of four neighbours and a uniform number up to the square of
    a roughness, which starts at 100 and is divided by `decay` each time that squares are halved.
    """
    field = torch.zeros(num, size, size)
    step, roughness = size, 100.0

    def filled(four: Tensor) -> Tensor:
        return four / 4 + roughness**2 * (2 * draws.uniform(*four.shape[1:]) - 1)

    while step > 1:
        half = step // 2
        corner = field[:, ::step, ::step]
        below = corner.roll(-1, 1)
        middle = filled(corner + below + (corner + below).roll(-1, 2))
        field[:, half::step, half::step] = middle
        field[:, ::step, half::step] = filled(corner + corner.roll(-1, 2) + middle + middle.roll(1, 1))
        field[:, half::step, ::step] = filled(corner + below + middle + middle.roll(1, 2))
        step, roughness = half, roughness / decay
    low, high = field.amin(dim=(1, 2), keepdim=True), field.amax(dim=(1, 2), keepdim=True)
    return (field - low) / (high - low)


FOG = Corruption(
    fog,
    cifar=((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
    tiny=((0.4, 3), (0.7, 3), (1, 2.5), (1.5, 2), (2, 1.75)),
    imagenet=((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
)
