"""Training images moved, mirrored and cut out of, differently at every step."""

from dataclasses import dataclass
from zlib import crc32

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

_PURPOSE = crc32(b"augment")  # so that no other draws of the same seed and step are these
_BORDERS = {"zero": "constant", "reflect": "reflect"}


@dataclass(frozen=True)
class Augment:
    """Crops of the padded image, mirrored with probability `flip`, less a square of side `cutout`.

    A pure function of the seed and the step: nothing to save, nothing to restore, the global generator untouched. Each
    image of a batch has draws of its own. The square's centre is any pixel, so that near the border less is cut out;
    it and the border `zero` are filled with 0, which in standardised images is the mean. `padding` 0, `flip` 0 and
    `cutout` 0 each leave that part out.

    >>> images = torch.arange(4.0).reshape(1, 1, 2, 2)
    >>> Augment(padding=0, flip=1.0)(images, step=0).flatten().tolist()
    [1.0, 0.0, 3.0, 2.0]
    """

    padding: int = 4
    border: str = "zero"
    flip: float = 0.5
    cutout: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.border not in _BORDERS:
            raise ValueError(f"`border` must be zero or reflect, got {self.border!r}.")
        if not 0 <= self.flip <= 1:
            raise ValueError(f"`flip` must lie in [0, 1], got {self.flip}.")
        for name in ("padding", "cutout", "seed"):
            if getattr(self, name) < 0:
                raise ValueError(f"`{name}` must be at least 0, got {getattr(self, name)}.")

    def __call__(self, images: Tensor, *, step: int) -> Tensor:
        """The images [N, C, H, W] as step `step` sees them."""
        if images.ndim != 4:
            raise ValueError(f"`images` must have the shape [N, C, H, W], got {list(images.shape)}.")
        n, channels, height, width = images.shape
        if self.border == "reflect" and self.padding >= min(height, width):
            raise ValueError(f"`padding` must be less than the images' side to reflect them, got {self.padding}.")
        random = np.random.default_rng([_PURPOSE, self.seed, step])
        up, left = (random.integers(0, 2 * self.padding + 1, size=(n, 1)) for _ in range(2))
        flipped = random.random((n, 1)) < self.flip
        rows, columns = np.arange(height), np.arange(width)
        columns = np.where(flipped, columns[::-1], columns) + left  # [N, W]
        places = (rows + up)[:, :, None] * (width + 2 * self.padding) + columns[:, None, :]  # [N, H, W]
        index = torch.from_numpy(places).to(images.device).view(n, 1, -1).expand(-1, channels, -1)
        padded = F.pad(images, (self.padding,) * 4, mode=_BORDERS[self.border])
        moved = padded.flatten(2).gather(2, index).view_as(images)
        if self.cutout:
            hole = [_span(random.integers(0, side, size=(n, 1)), side, self.cutout) for side in (height, width)]
            inside = torch.from_numpy(hole[0][:, None, :, None] & hole[1][:, None, None, :])
            moved.masked_fill_(inside.to(images.device), 0.0)
        return moved


def _span(centre: NDArray[np.int64], side: int, length: int) -> NDArray[np.bool_]:
    first = centre - length // 2
    place = np.arange(side)
    return (place >= first) & (place < first + length)  # [N, side]
