"""The affine map of least NLL, plain or with a ridge: the one solver behind vector, matrix, Dirichlet, SVS and SMS."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from surefoot.posthoc._newton import Local, Solution, minimise
from surefoot.posthoc.temperature import best_scale
from surefoot.predictions import Predictions


@dataclass(frozen=True)
class Family:
    """A kind of affine map: weights [.., K] with the bias as the last row, how they act, and the transpose of that."""

    act: Callable[[Tensor, Tensor], Tensor]  # weights, inputs [N, K] -> outputs [N, K]
    pull_back: Callable[[Tensor, Tensor], Tensor]  # residuals [N, K], inputs [N, K] -> like the weights
    scaled_identity: Callable[[Tensor], Tensor]  # the diagonal [K] -> weights without bias


DIAGONAL = Family(
    act=lambda weights, inputs: inputs * weights[0] + weights[1],
    pull_back=lambda residuals, inputs: torch.stack([(residuals * inputs).sum(dim=0), residuals.sum(dim=0)]),
    scaled_identity=lambda diagonal: torch.stack([diagonal, torch.zeros_like(diagonal)]),
)
FULL = Family(
    act=lambda weights, inputs: torch.addmm(weights[-1], inputs, weights[:-1]),
    pull_back=lambda residuals, inputs: torch.cat([inputs.T @ residuals, residuals.sum(dim=0)[None]]),
    scaled_identity=lambda diagonal: torch.cat([diagonal.diag(), torch.zeros_like(diagonal)[None]]),
)


def fit_affine(
    predictions: Predictions,
    family: Family,
    *,
    start: float,
    centre: Tensor,
    ridge: Tensor,
    separable: bool = True,
    max_steps: int = 100,
) -> Solution:
    """The weights of least mean NLL + sum ridge * (weights - centre)^2, from `start` times the identity.

    Newton with conjugate gradients: the Hessian is only ever applied, at the cost of a gradient without its exp. Unless
    `separable`, weights that get every sample right are an error: scaling them up lowers a bare NLL for ever.
    """
    num_samples, num_classes = predictions.num_samples, predictions.num_classes
    data = [(part.exact, part.labels.long()) for part in predictions.blocks()]
    target = sum(family.pull_back(one_hot(labels, num_classes).double(), x) for x, labels in data)

    def objective(weights: Tensor) -> Local:
        nll, residual, probabilities, all_right = 0.0, -target, [], not separable
        for x, labels in data:
            outputs = family.act(weights, x)
            log_total = outputs.logsumexp(dim=1, keepdim=True)
            true = outputs.gather(1, labels[:, None])
            nll += float((log_total - true).sum())
            if all_right:
                all_right = bool((outputs.scatter(1, labels[:, None], -torch.inf).amax(dim=1) < true[:, 0]).all())
            probabilities.append(outputs.sub_(log_total).exp_())
            residual = residual + family.pull_back(probabilities[-1], x)
        if all_right:
            raise ValueError(
                "`predictions` have no best affine map: some gets every sample right, so the NLL falls on to 0."
            )
        away = weights - centre
        value = nll / num_samples + float((ridge * away.square()).sum())
        gradient = residual / num_samples + 2 * ridge * away

        def hessian(direction: Tensor) -> Tensor:
            total = torch.zeros_like(weights)
            for p, (x, _) in zip(probabilities, data, strict=True):
                moved = family.act(direction, x)
                moved -= (p * moved).sum(dim=1, keepdim=True)
                total += family.pull_back(moved.mul_(p), x)
            return total / num_samples + 2 * ridge * direction

        def newton_step(_: Tensor) -> Tensor:
            diagonal = torch.zeros_like(weights)
            for p, (x, _) in zip(probabilities, data, strict=True):
                diagonal += family.pull_back(p - p.square(), x.square())
            return _conjugate_gradients(hessian, -gradient, diagonal=diagonal / num_samples + 2 * ridge)

        return Local(value, gradient, newton_step)

    identity = family.scaled_identity(torch.full_like(data[0][0][0], start))
    return minimise(objective, identity, max_steps=max_steps)


def fit_unpenalised(predictions: Predictions, family: Family, *, max_steps: int = 100) -> Solution:
    """The weights of least mean NLL, from the best temperature; ValueError where there are none.

    That is where a class has no sample, so that its bias falls on, and where some weights get every sample right, so
    that scaling them up lowers the NLL for ever. Samples that can be separated only in part are not noticed.
    """
    count = predictions.labels.long().bincount(minlength=predictions.num_classes)
    if not bool(count.all()):
        missing = int((count == 0).nonzero()[0, 0])
        raise ValueError(
            f"`predictions` have no best affine map: class {missing} has no sample, so its bias falls to -infinity."
        )
    zero = predictions.logits.new_zeros((), dtype=torch.float64)
    start = warm_start(predictions)
    return fit_affine(predictions, family, start=start, centre=zero, ridge=zero, separable=False, max_steps=max_steps)


def warm_start(predictions: Predictions) -> float:
    """The best 1/T, or 1 where there is none."""
    best = best_scale(predictions)
    return 1.0 if best.falls_to else math.exp(best.place)


def _conjugate_gradients(
    hessian: Callable[[Tensor], Tensor], right: Tensor, *, diagonal: Tensor, max_steps: int = 500
) -> Tensor:
    """Roughly hessian^-1 right, the better the smaller `right`: so Newton's steps converge faster than linearly."""
    size = float(right.norm())
    enough = size * min(0.1, size**0.5)
    scale = diagonal.clamp(min=1e-12 * float(diagonal.max())).reciprocal()
    solution, residual = torch.zeros_like(right), right.clone()
    direction = scaled = scale * residual
    product = float((residual * scaled).sum())
    for _ in range(max_steps):
        image = hessian(direction)
        curvature = float((direction * image).sum())
        if curvature <= 0:  # flat to rounding: the common shift of all logits, or saturated probabilities
            break
        length = product / curvature
        solution = solution + length * direction
        residual = residual - length * image
        if float(residual.norm()) <= enough:
            break
        scaled = scale * residual
        before, product = product, float((residual * scaled).sum())
        direction = scaled + product / before * direction
    return solution if bool(solution.any()) else scale * right
