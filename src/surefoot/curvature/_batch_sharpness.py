"""Curvature along the gradient of a mini-batch."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from surefoot.curvature.hessian import Hessian
from surefoot.curvature.matrix import CurvatureMatrix, Loss


@dataclass(frozen=True)
class BatchSharpness:
    """A mean over random batches, with its standard error."""

    value: float
    standard_error: float
    num_draws: int
    converged: bool  # the standard error reached what was asked for


def batch_sharpness(
    model: nn.Module,
    loss: Loss,
    inputs: Tensor,
    labels: Tensor,
    *,
    batch_size: int,
    relative_error: float = 0.02,
    min_draws: int = 10,
    max_draws: int = 500,
    seed: int = 0,
    matrix: type[CurvatureMatrix] = Hessian,
) -> BatchSharpness:
    r"""E_B[g_B^T H_B g_B / ||g_B||^2], gradient and Hessian of the same random batch B; SGD holds it at 2 / lr.

    The mean of the ratios over batches drawn without replacement inside a batch, until its standard error is at most
    `relative_error` times the value. Andreyev and Beneventano 2024. Costs a batch's gradient and a product per draw.
    With `matrix=GGN` the same for the Gauss-Newton matrix.
    """
    if not 1 <= batch_size <= len(labels):
        raise ValueError(f"`batch_size` must lie in 1..{len(labels)}, got {batch_size}.")
    if not 2 <= min_draws <= max_draws:
        raise ValueError(f"`min_draws` must lie in 2..{max_draws}, got {min_draws}.")
    if not relative_error > 0:
        raise ValueError(f"`relative_error` must be positive, got {relative_error}.")
    generator = torch.Generator().manual_seed(seed)
    ratios: list[float] = []
    while True:
        chosen = torch.randperm(len(labels), generator=generator, device="cpu")[:batch_size].to(labels.device)
        ratios.append(step_sharpness(model, loss, inputs[chosen], labels[chosen], matrix=matrix))
        if len(ratios) < min_draws:
            continue
        mean = sum(ratios) / len(ratios)
        error = math.sqrt(sum((r - mean) ** 2 for r in ratios) / (len(ratios) - 1) / len(ratios))
        converged = error <= relative_error * abs(mean)
        if converged or len(ratios) == max_draws:
            return BatchSharpness(mean, error, len(ratios), converged)


def step_sharpness(
    model: nn.Module, loss: Loss, inputs: Tensor, labels: Tensor, *, matrix: type[CurvatureMatrix] = Hessian
) -> float:
    """g^T H g / ||g||^2 on one batch, the curvature that a gradient step on it meets. A gradient and a product."""
    curvature = matrix(model, loss, inputs, labels)
    gradient = curvature.gradient()
    square = float(gradient.square().sum())
    if square == 0:
        raise ValueError("The gradient of the batch is zero, so it has no direction to measure curvature along.")
    return float(gradient @ (curvature @ gradient)) / square
