"""How images are standardised, and how they come back."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_AT_ONCE = 4096  # images whose squares are summed together
_SCALES = ("channel", "coordinate")


@dataclass(frozen=True, eq=False)
class Standardisation:
    """The mean and deviation of training images, in units of 0..`white`, that others are standardised with."""

    mean: Tensor  # [C, 1, 1] or [C, H, W], float64
    std: Tensor
    white: int = 255  # the largest value that is stored; all are whole numbers

    @classmethod
    def of(cls, images: Tensor, *, per: str = "channel") -> "Standardisation":
        """Of uint8 images [N, C, H, W], per channel or per coordinate; what never varies is only shifted.

        Sums are of whole numbers and exact.
        """
        if per not in _SCALES:
            raise ValueError(f"`standardised` must be per channel or coordinate, got {per!r}.")
        total = torch.zeros(images.shape[1:], dtype=torch.int64)
        squares = torch.zeros_like(total)
        for start in range(0, len(images), _AT_ONCE):
            wide = images[start : start + _AT_ONCE].to(torch.int32)
            total += wide.sum(dim=0)
            squares += wide.square_().sum(dim=0)
        mean, square = total.double() / len(images), squares.double() / len(images)
        if per == "channel":
            mean, square = (part.mean(dim=(1, 2), keepdim=True) for part in (mean, square))
        std = (square - mean.square()).clamp(min=0).sqrt()
        return cls(mean, torch.where(std < 1e-6, 1.0, std))

    @classmethod
    def per_coordinate(cls, train: NDArray[np.float64], *, unit: float = 1.0, white: int = 255) -> "Standardisation":
        """Of images in floating point [N, ...], whose values times `unit` are those stored."""
        mean, std = moments(train)
        return cls(torch.from_numpy(unit * mean), torch.from_numpy(unit * std), white)

    def __call__(self, images: Tensor) -> Tensor:
        """The images [N, C, H, W], standardised, float32."""
        mean, std = (part.to(images.device, torch.float32) for part in (self.mean, self.std))
        return images.float().sub(mean).div_(std)

    def images(self, inputs: Tensor) -> Tensor:
        """What was standardised, to the bit: uint8 where white is 255, else floating point in [0, 1]; on the CPU.

        >>> scale = Standardisation.of(torch.tensor([[[[0]]], [[[9]]], [[[255]]]], dtype=torch.uint8))
        >>> scale.images(scale(torch.tensor([[[[7]]]], dtype=torch.uint8))).item()
        7
        """
        stored = inputs.cpu().double().mul_(self.std).add_(self.mean).round_().clamp_(0, self.white)
        return stored.to(torch.uint8) if self.white == 255 else stored.div_(self.white).float()

    def inputs(self, images: Tensor) -> Tensor:
        """The way back: images like those that `images` returns, standardised."""
        return self(images if images.dtype == torch.uint8 else images * self.white)


def standardised(train: NDArray[np.float64], *others: NDArray[np.float64]) -> tuple[Tensor, ...]:
    """All sets shifted and scaled, per coordinate, by the mean and deviation of the training samples used.

    A coordinate that never varies in training is only shifted.
    """
    mean, std = moments(train)
    return tuple(torch.from_numpy((part - mean) / std).float() for part in (train, *others))


def moments(train: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and deviation of each coordinate over the samples; 1 for the deviation of one that never varies."""
    mean, std = train.mean(axis=0), train.std(axis=0)
    std[std == 0] = 1.0
    return mean, std
