"""What a lens out of focus sees."""

import torch
from torch import Tensor

from surefoot.data.corruptions._corruption import Corruption
from surefoot.data.corruptions._filters import filtered, gaussian
from surefoot.data.corruptions._philox_draws import PhiloxDraws


def defocus_blur(images: Tensor, radius_and_sigma: tuple[float, float], draws: PhiloxDraws) -> Tensor:
    """Correlated with a disk whose edge is smoothed; reflected at the border."""
    return filtered(images, disk(*radius_and_sigma))


def disk(radius: float, sigma: float) -> Tensor:
    """The points x^2 + y^2 <= radius^2 of the grid -8..8, normalised, blurred by 3x3 Gaussian weights, float64.

    Beyond radius 8 the grid is -radius..radius and the weights are 5x5. Zeros around the kernel are left out.
    """
    place = torch.arange(-max(8, int(radius)), max(8, int(radius)) + 1)
    inside = (place[:, None] ** 2 + place**2 <= radius**2).double()
    weights = gaussian(1 if radius <= 8 else 2, sigma)
    kernel = filtered((inside / inside.sum())[None, None], weights[:, None] * weights)[0, 0]
    used = place[kernel.amax(dim=0) > 0].amax()
    kept = place.abs() <= used
    return kernel[kept][:, kept]


DEFOCUS_BLUR = Corruption(
    defocus_blur,
    cifar=((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
    tiny=((0.5, 0.6), (1, 0.1), (1.5, 0.1), (2.5, 0.01), (3, 0.1)),
    imagenet=((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
)
