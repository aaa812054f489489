"""A plain blur."""

from torch import Tensor

from surefoot.data.corruptions._corruption import Corruption
from surefoot.data.corruptions._filters import gaussian_blurred
from surefoot.data.corruptions._philox_draws import PhiloxDraws


def gaussian_blur(images: Tensor, sigma: float, draws: PhiloxDraws) -> Tensor:
    """Blurred by a Gaussian."""
    return gaussian_blurred(images, sigma)


GAUSSIAN_BLUR = Corruption(
    gaussian_blur, cifar=(0.4, 0.6, 0.7, 0.8, 1), tiny=(0.5, 0.75, 1, 1.25, 1.5), imagenet=(1, 2, 3, 4, 6)
)
