"""Worst input shifts: the lowest true margin near each input, by projected gradient descent."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from surefoot.eval_mode import evaluating
from surefoot.predictions import Predictions
from surefoot.registry import look_up

Norm = Literal["l2", "linf"]


@dataclass(frozen=True)
class Shifted:
    """Inputs moved inside their balls, and the true margin there: never above the margin at the ball's centre."""

    inputs: Tensor  # [N, ...], like the inputs given
    margin: Tensor  # [N], float64: an upper bound of the robust margin


def worst_shift(
    model: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    *,
    radius: float,
    norm: Norm = "l2",
    num_steps: int = 20,
    step: float = 0.25,
    num_restarts: int = 1,
    seed: int = 0,
    chunk_size: int = 1024,
) -> Shifted:
    r"""The lowest true margin found within `radius` of each input, by projected gradient descent.

    An upper bound of the robust margin m_eps = inf_{||delta|| <= eps} m(x + delta): no shift found is not a proof that
    there is none. Candidates are delta = 0; a step of the whole radius against each rival class, which is exact where
    the logits are linear in the input; then `num_steps` steps from the best of these and again from `num_restarts`
    random points of the sphere, each step `step` radii long at first and shrinking to nothing. The ball is kept in
    exact arithmetic: its radius is first made smaller by what rounding may add.

    The model is evaluated in eval mode; mode, gradients and generators are restored. A sample's result does not
    depend on its neighbours: the random points are the same for all. Costs K + (1 + num_restarts) num_steps gradients.

    >>> model = nn.Linear(2, 2, bias=False)
    >>> _ = model.weight.data.copy_(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    >>> shifted = worst_shift(model, torch.tensor([[1.0, 1.0]]), torch.tensor([0]), radius=0.5)
    >>> round(shifted.margin.item(), 3)  # 7 - 0.5 * 5
    4.5
    """
    ball = look_up("norm", norm, _BALLS)
    _check(inputs, labels, radius=radius, num_steps=num_steps, step=step, num_restarts=num_restarts, chunk=chunk_size)
    devices = [inputs.device] if inputs.device.type == "cuda" else []
    with evaluating(model), torch.enable_grad(), torch.random.fork_rng(devices=devices):
        parts = []
        for at in range(0, len(labels), chunk_size):
            rows = slice(at, at + chunk_size)
            search = _ShiftSearch(model, inputs[rows].detach(), labels[rows], ball, radius)
            search.against_each_rival()
            search.descend(search.best - search.centre, num_steps=num_steps, step=step)
            generator = torch.Generator().manual_seed(seed)  # anew in each chunk: chunks change nothing
            for _ in range(num_restarts):
                noise = torch.randn(search.best[0].shape, generator=generator, dtype=torch.float64, device="cpu")
                start = noise.to(search.best).expand_as(search.best)
                search.descend(search.inner * ball.steepest(start), num_steps=num_steps, step=step)
            parts.append((search.best.view_as(inputs[rows]), search.margin))
    return Shifted(torch.cat([best for best, _ in parts]), torch.cat([margin for _, margin in parts]))


def quick_shift(
    margins: Callable[[Tensor], Tensor],
    inputs: Tensor,
    margin: Tensor,
    *,
    radius: float,
    norm: Norm = "l2",
    num_steps: int = 1,
) -> Tensor:
    """Shifts [N, ...] of size `radius` that lower each margin, from slopes alone: what a training step can afford.

    `margin` is margins(inputs), with its graph, which is kept. The first step has the whole radius, which is worst
    where the margin is linear in the input; each further one goes half a radius along the gradient at the present
    point, back into the ball. An input without a gradient stays. The margin at the shift may be higher: compare. Costs
    one gradient in the inputs, and for every further step a forward pass and another.
    """
    ball = look_up("norm", norm, _BALLS)
    centre = inputs.detach().flatten(1)
    shift = -radius * ball.steepest(_slope(margin, inputs, keep=True).flatten(1))
    for _ in range(num_steps - 1):
        with torch.enable_grad():
            point = (centre + shift).view_as(inputs).requires_grad_()
            slope = _slope(margins(point), point, keep=False).flatten(1)
        shift = ball.project(shift - radius / 2 * ball.steepest(slope), torch.full_like(shift[:, :1], radius))
    return shift.view_as(inputs)


@dataclass(frozen=True)
class _Ball:
    size: Callable[[Tensor], Tensor]  # the norm of each row, [N, D] to [N, 1], in float64
    steepest: Callable[[Tensor], Tensor]  # of each gradient, the shift of norm 1 that climbs most
    project: Callable[[Tensor, Tensor], Tensor]  # shifts [N, D] into balls of radius [N, 1]


def _length(shift: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(shift, dim=1, keepdim=True, dtype=torch.float64)
    return length


def _largest(shift: Tensor) -> Tensor:
    return shift.abs().amax(dim=1, keepdim=True).double()


def _unit(gradient: Tensor) -> Tensor:
    tiny = torch.finfo(gradient.dtype).tiny
    scaled = gradient / gradient.abs().amax(dim=1, keepdim=True).clamp(min=tiny)  # squares would underflow
    return scaled / _length(scaled).clamp(min=tiny).to(gradient)


def _shortened(shift: Tensor, radius: Tensor) -> Tensor:
    return shift * (radius / _length(shift).clamp(min=torch.finfo(torch.float64).tiny)).clamp(max=1).to(shift)


def _clipped(shift: Tensor, radius: Tensor) -> Tensor:
    return shift.clamp(-radius, radius)


_BALLS = {"l2": _Ball(_length, _unit, _shortened), "linf": _Ball(_largest, torch.sign, _clipped)}


class _ShiftSearch:
    """The best shift so far of some samples."""

    def __init__(self, model: nn.Module, inputs: Tensor, labels: Tensor, ball: _Ball, radius: float) -> None:
        self.model, self.shape, self.labels, self.ball = model, inputs.shape, labels, ball
        self.centre = inputs.reshape(len(inputs), -1)  # [N, D]
        rounding = 4 * torch.finfo(inputs.dtype).eps * (ball.size(self.centre) + radius)
        self.inner = (radius - rounding).clamp(min=0).to(inputs.dtype)  # [N, 1]
        self.radius = radius
        self.best = self.centre.clone()
        with torch.no_grad():
            self.margin = self._predictions(self.centre).margin

    def against_each_rival(self) -> None:
        point = self.centre.clone().requires_grad_()
        logits = self._predictions(point).logits
        gaps = logits.gather(1, self.labels.long()[:, None]) - logits  # [N, K]; 0 for the label itself
        for gap in gaps.unbind(dim=1):
            shift = -self.inner * self.ball.steepest(_slope(gap, point, keep=True))
            with torch.no_grad():
                self._keep(self.centre + shift, self._predictions(self.centre + shift).margin)

    def descend(self, shift: Tensor, *, num_steps: int, step: float) -> None:
        for index in range(num_steps):
            point = (self.centre + self.ball.project(shift, self.inner)).requires_grad_()
            margin = self._predictions(point).margin
            self._keep(point.detach(), margin.detach())
            length = step * self.radius * (1 - index / num_steps)
            shift = point.detach() - self.centre - length * self.ball.steepest(_slope(margin, point, keep=False))
        with torch.no_grad():
            point = self.centre + self.ball.project(shift, self.inner)
            self._keep(point, self._predictions(point).margin)

    def _predictions(self, points: Tensor) -> Predictions:
        return Predictions(self.model(points.view(self.shape)), self.labels)

    def _keep(self, points: Tensor, margin: Tensor) -> None:
        lower = margin < self.margin
        self.best = torch.where(lower[:, None], points, self.best)
        self.margin = torch.where(lower, margin, self.margin)


def _slope(values: Tensor, point: Tensor, *, keep: bool) -> Tensor:
    (slope,) = torch.autograd.grad(values.sum(), point, retain_graph=keep, materialize_grads=True)
    return slope.nan_to_num()  # where there is no direction to go, stay


def _check(
    inputs: Tensor, labels: Tensor, *, radius: float, num_steps: int, step: float, num_restarts: int, chunk: int
) -> None:
    if not inputs.is_floating_point() or inputs.ndim < 2 or inputs.shape[:1] != labels.shape or not len(inputs):
        raise ValueError(
            f"`inputs` must be floating point of shape [N, ...] for labels of shape [N], N at least 1, "
            f"got {inputs.dtype} of shape {list(inputs.shape)} for labels of shape {list(labels.shape)}."
        )
    if not 0 <= radius < math.inf:
        raise ValueError(f"`radius` must be at least 0 and finite, got {radius}.")
    if not 0 < step < math.inf:
        raise ValueError(f"`step` must be positive and finite, got {step}.")
    for name, count, least in (
        ("num_steps", num_steps, 0),
        ("num_restarts", num_restarts, 0),
        ("chunk_size", chunk, 1),
    ):
        if count < least:
            raise ValueError(f"`{name}` must be at least {least}, got {count}.")
