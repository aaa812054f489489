"""A way to spoil images, in five severities."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from surefoot.data.corruptions._philox_draws import PhiloxDraws

SIZES = ("cifar", "tiny", "imagenet")


@dataclass(frozen=True)
class Corruption:
    """A change of images, and its constants at severities 1 to 5 for each of three sizes of image.

    `apply` maps images [N, C, H, W] with values in [0, 1], the constants of a severity and random draws to images, of
    which values outside [0, 1] are cut off by the caller. One that `takes_bytes` also maps uint8 images to such.
    """

    apply: Callable[[Tensor, Any, PhiloxDraws], Tensor]
    cifar: tuple[Any, ...]  # shorter side up to 32
    tiny: tuple[Any, ...]  # up to 64
    imagenet: tuple[Any, ...]  # beyond
    takes_bytes: bool = False

    def constants(self, severity: int, *, size: str) -> Any:
        """Those of a severity, 1 to 5."""
        return getattr(self, size)[severity - 1]


def size_of(height: int, width: int) -> str:
    """Which constants suit images of so many pixels.

    >>> size_of(32, 32), size_of(64, 64), size_of(224, 256)
    ('cifar', 'tiny', 'imagenet')
    """
    side = min(height, width)
    return SIZES[(side > 32) + (side > 64)]
