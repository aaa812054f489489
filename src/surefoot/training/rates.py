"""How the learning rate goes over the course of a run."""

import math
from collections.abc import Callable
from dataclasses import dataclass


def _check_share(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise ValueError(f"`{name}` must be at least 0 and below 1, got {value}.")


@dataclass(frozen=True)
class Constant:
    """The learning rate as it is."""

    def __call__(self, spent: float) -> float:
        return 1.0


@dataclass(frozen=True)
class Cosine:
    """Half a cosine from the learning rate down to `floor` times it, after a linear warm-up over a share of the budget.

    >>> [round(Cosine()(spent), 3) for spent in (0.0, 0.5, 1.0)]
    [1.0, 0.5, 0.0]
    """

    warm_up: float = 0.0
    floor: float = 0.0

    def __post_init__(self) -> None:
        _check_share("warm_up", self.warm_up)
        _check_share("floor", self.floor)

    def __call__(self, spent: float) -> float:
        if spent < self.warm_up:
            return spent / self.warm_up
        gone = (spent - self.warm_up) / (1 - self.warm_up)
        return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * gone)) / 2


@dataclass(frozen=True)
class Steps:
    """The learning rate times `factor` from each of some shares of the budget on.

    >>> [round(Steps(at=(0.5, 0.75))(spent), 3) for spent in (0.0, 0.5, 0.9)]
    [1.0, 0.1, 0.01]
    """

    at: tuple[float, ...] = (0.5, 0.75)
    factor: float = 0.1

    def __post_init__(self) -> None:
        for share in self.at:
            _check_share("at", share)
        if not 0 < self.factor <= 1:
            raise ValueError(f"`factor` must be above 0 and at most 1, got {self.factor}.")

    def __call__(self, spent: float) -> float:
        return float(self.factor ** sum(spent >= share for share in self.at))


RATES: dict[str, Callable[..., Callable[[float], float]]] = {"constant": Constant, "cosine": Cosine, "steps": Steps}
