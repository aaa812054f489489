"""An estimate with the range that the truth lies in, and how that range was found."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.argument_error import ArgumentError
from surefoot.predictions import Predictions

_HIGHEST = 0.999
_IN_TAIL = 5


@dataclass(frozen=True)
class Interval:
    """A metric's value on a sample, and limits for its value on the population that the sample was drawn from."""

    value: float
    low: float
    high: float
    level: float  # how often such intervals are meant to hold the truth
    method: str

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"


@dataclass(frozen=True)
class IntervalOptions:
    """What intervals depend on beside the predictions."""

    level: float = 0.95
    num_bins: int = 15
    num_replicates: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.level <= _HIGHEST:
            raise ArgumentError(f"`level` must lie between 0 and {_HIGHEST}, got {self.level}.", "level")
        if self.num_replicates < 100:
            raise ValueError(f"`num_replicates` must be at least 100, got {self.num_replicates}.")
        if self.num_replicates * self.tail < _IN_TAIL:  # a tail of too few draws is not at this level
            object.__setattr__(self, "num_replicates", math.ceil(_IN_TAIL / self.tail))

    @property
    def tail(self) -> float:
        """The chance meant to be left out on each side."""
        return (1 - self.level) / 2

    def interval(self, value: Tensor | float, low: Tensor | float, high: Tensor | float, method: str) -> Interval:
        """An interval at this level, widened to hold the value itself should a biased estimate lie outside."""
        middle = float(value)
        return Interval(middle, min(float(low), middle), max(float(high), middle), self.level, method)

    def normals(self, *shape: int, like: Tensor) -> Tensor:
        """Standard normal draws, the same on every call and device."""
        generator = torch.Generator().manual_seed(self.seed)
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(like.device)


def normal_quantile(probability: float) -> float:
    """The z with this probability below it."""
    return float(torch.special.ndtri(torch.tensor(probability, dtype=torch.float64, device="cpu")))


IntervalOf = Callable[[Predictions, IntervalOptions], Interval]
