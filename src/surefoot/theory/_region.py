"""Sets that hold every value within reach, pushed through layers and widened by what rounding may have changed."""

from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.theory._chain import Activation

_EPS = torch.finfo(torch.float64).eps  # twice the unit roundoff: half of it pays for the rounding of the slack itself


@dataclass(frozen=True)
class Box:
    """For each of N samples all points between `lower` and `upper`."""

    lower: Tensor  # [N, D], float64
    upper: Tensor  # [N, D]

    def __getitem__(self, rows: Tensor) -> "Box":
        return Box(self.lower[rows], self.upper[rows])

    def mapped(self, weight: Tensor, bias: Tensor) -> "Box":
        """The smallest box around all W x + b."""
        rising, falling = weight.clamp(min=0).T, weight.clamp(max=0).T
        slack = _rounding(weight, bias, self.lower.abs().maximum(self.upper.abs()))
        lower = self.lower @ rising + self.upper @ falling + bias
        upper = self.upper @ rising + self.lower @ falling + bias
        return Box(lower - slack, upper + slack)

    def activated(self, activation: Activation) -> "Box":
        """The smallest box around all f(x)."""
        (lowest, _), (_, left), (_, right) = (
            _around(activation, at)
            for at in (self.lower.clamp(min=activation.lowest_at).minimum(self.upper), self.lower, self.upper)
        )
        return Box(lowest, left.maximum(right))


@dataclass(frozen=True)
class Ball:
    """For each of N samples all points within `radius` of the centre, in the norm whose dual has order `dual`."""

    centre: Tensor  # [N, D], float64
    radius: float
    dual: float

    def __getitem__(self, rows: Tensor) -> "Ball":
        return Ball(self.centre[rows], self.radius, self.dual)

    def mapped(self, weight: Tensor, bias: Tensor) -> Box:
        """The smallest box around all W x + b: W c + b -+ radius ||w||_dual."""
        middle = self.centre @ weight.T + bias
        half = self.radius * row_norms(weight, self.dual)
        slack = _rounding(weight, bias, self.centre.abs()) + _rounding_share(weight) * half
        return Box(middle - half - slack, middle + half + slack)


def row_norms(rows: Tensor, order: float) -> Tensor:
    """The norm of each row, [O] of [O, I]; squares of small numbers do not vanish, those of large ones stay finite."""
    size = rows.abs().amax(dim=1, keepdim=True).clamp(min=torch.finfo(rows.dtype).tiny)
    norms: Tensor = torch.linalg.vector_norm(rows / size, ord=order, dim=1) * size[:, 0]
    return norms


def _around(activation: Activation, at: Tensor) -> tuple[Tensor, Tensor]:
    value = activation.function(at)
    slack = 4 * _EPS * (value.abs() + at.abs())  # a few units in the last place, and of x where GELU cancels
    return value - slack, value + slack


def _rounding(weight: Tensor, bias: Tensor, size: Tensor) -> Tensor:
    return _rounding_share(weight) * (size @ weight.abs().T + bias.abs())  # [N, O]


def _rounding_share(weight: Tensor) -> float:
    return (weight.shape[1] + 4) * _EPS  # products, their sum, the bias, and the entries where they are differences
