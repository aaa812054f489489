"""Cheap stand-ins for the margin tail and its bounds, for where the exact ones cost too much."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from surefoot.attack import Norm
from surefoot.curvature.matrix import differentiable_eval
from surefoot.eval_mode import refuse_training
from surefoot.predictions import Predictions
from surefoot.registry import look_up
from surefoot.theory._margin_tail import Tail, tail
from surefoot.theory._sample_curvature import sample_curvature
from surefoot.theory.lipschitz import DUALS


@dataclass(frozen=True, eq=False)
class MiniBatch:
    """What some of the samples say about all of them. Not a bound: a sample left out may be the worst."""

    tail: Tail  # its `worst` are places in the whole set
    sharpness_bound: float  # 2 C_J^2 (K - 1) Q of these samples


def mini_batch(model: nn.Module, inputs: Tensor, labels: Tensor, *, size: int, seed: int) -> MiniBatch:
    """Tail, and Theorem 4.1's bound of the sharpness, of `size` samples drawn without repetition; all if fewer."""
    if size < 1:
        raise ValueError(f"`size` must be at least 1, got {size}.")
    if len(inputs) != len(labels):
        raise ValueError(f"`labels` must be as many as the inputs, {len(inputs)}, got {len(labels)}.")
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed), device="cpu")
    drawn = order[:size].to(labels.device)
    some = inputs[drawn]
    norms = sample_curvature(model, some).norms
    with differentiable_eval(model), torch.no_grad():
        predictions = Predictions(model(some), labels[drawn])
    margin_tail = tail(predictions.margin)
    margin_tail = replace(margin_tail, worst=drawn.to(margin_tail.worst.device)[margin_tail.worst])
    rivals = predictions.num_classes - 1
    moment = torch.tensor(margin_tail.log_moment, dtype=torch.float64, device="cpu").exp()
    return MiniBatch(margin_tail, 2 * float(norms.max()) ** 2 * rivals * float(moment))


def low_rank_sharpness(model: nn.Module, inputs: Tensor, *, rank: int = 1) -> float:
    """The mean sharpness of one sample, each looked at along `rank` directions of its logits: `rank` backward passes.

    Never above the exact mean, which bounds the sharpness, and near it where two classes share nearly all probability.
    Not a bound by itself.
    """
    return float(sample_curvature(model, inputs, rank=rank).sharpness.mean())


def input_gradient_margins(model: nn.Module, inputs: Tensor, labels: Tensor, *, radius: float, norm: Norm) -> Tensor:
    r"""m(x) - radius ||grad_x m(x)||_dual of every sample [N]: the robust margin to first order, for one backward pass.

    Exact where the same rival stays nearest and the logits are linear in the input; otherwise neither an upper nor a
    lower bound.

    >>> model = nn.Linear(2, 2, bias=False)
    >>> _ = model.weight.data.copy_(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    >>> point = torch.tensor([[1.0, 1.0]]), torch.tensor([0])
    >>> round(input_gradient_margins(model, *point, radius=0.5, norm="l2").item(), 6)  # 7 - 0.5 * 5
    4.5
    """
    dual = look_up("norm", norm, DUALS)
    refuse_training(model)
    if not 0 <= radius < math.inf:
        raise ValueError(f"`radius` must be at least 0 and finite, got {radius}.")
    with differentiable_eval(model):
        points = inputs.detach().clone().requires_grad_()
        margin = Predictions(model(points), labels).margin
        (slope,) = torch.autograd.grad(margin.sum(), points, materialize_grads=True)
    steepness: Tensor = torch.linalg.vector_norm(slope.flatten(1), ord=dual, dim=1)
    robust: Tensor = margin.detach() - radius * steepness.double()
    return robust
