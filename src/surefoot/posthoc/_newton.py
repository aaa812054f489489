"""Newton's method for the convex problems of post-hoc maps, with lower bounds where they have some."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.posthoc.map import Fit
from surefoot.predictions import Predictions

_ENOUGH = 1e-6  # a solution whose certificate is at most this counts as converged
_TOLERANCE = 1e-10  # what the steps aim at: close to the optimum the last one comes nearly free
_SHORTEST = 2.0**-40  # a step shortened this often only follows rounding


@dataclass(frozen=True, eq=False)
class Local:
    """A convex objective around one place."""

    value: float
    gradient: Tensor
    newton_step: Callable[[Tensor], Tensor]  # free coordinates -> minus inverse Hessian times gradient on them


@dataclass(frozen=True, eq=False)
class Solution:
    """A minimiser that carries its own proof."""

    place: Tensor
    certificate: float  # infinity norm of the gradient, projected on the bounds
    num_steps: int

    def record(self, predictions: Predictions) -> Fit:
        """The fit to these predictions."""
        n, k = predictions.num_samples, predictions.num_classes
        return Fit(n, k, self.certificate <= _ENOUGH, self.certificate, self.num_steps)


def minimise(
    objective: Callable[[Tensor], Local], start: Tensor, *, lower: Tensor | None = None, max_steps: int = 100
) -> Solution:
    """The minimum of a convex function over places >= lower: projected Newton steps, halved until they descend.

    Coordinates about to meet their bound move along the gradient instead (Bertsekas 1982).
    """
    bound = torch.full_like(start, -torch.inf) if lower is None else lower
    place, here = start, objective(start)
    for num_steps in range(max_steps + 1):
        certificate = float((place - torch.maximum(place - here.gradient, bound)).abs().max())
        if certificate <= _TOLERANCE or num_steps == max_steps:
            break
        at_bound = (place <= bound + min(1e-3, certificate)) & (here.gradient > 0)
        step = torch.where(at_bound, -here.gradient, here.newton_step(~at_bound))
        slack = 1e-14 * (1 + abs(here.value))  # rounding of the value, which ends before the gradient does
        length = 1.0
        while length >= _SHORTEST:
            there = torch.maximum(place + length * step, bound)
            candidate = objective(there)
            if candidate.value <= here.value + 1e-4 * float((here.gradient * (there - place)).sum()) + slack:
                break
            length /= 2
        else:
            break
        place, here = there, candidate
    return Solution(place, certificate, num_steps)


def dense_step(gradient: Tensor, hessian: Tensor) -> Callable[[Tensor], Tensor]:
    """Newton's step from a small Hessian, which is lifted by about the gradient's size in case it is singular."""

    def step(free: Tensor) -> Tensor:
        scale = hessian.diagonal().clamp(min=torch.finfo(hessian.dtype).tiny).rsqrt() * free
        slope = scale * gradient
        lift = slope.abs().max().clamp(1e-13, 1e-3) * torch.eye(len(slope), dtype=slope.dtype, device=slope.device)
        solved: Tensor = torch.linalg.solve(scale[:, None] * hessian * scale + lift, slope)
        return -scale * solved

    return step
