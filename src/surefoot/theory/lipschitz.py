"""What the weights prove about margins near an input: Lipschitz constants and robust margins from below."""

import math

import torch
from torch import Tensor, nn

from surefoot.attack import Norm
from surefoot.predictions import check_labels
from surefoot.registry import look_up
from surefoot.scores import check_finite
from surefoot.theory._chain import Link, chain
from surefoot.theory._region import Ball, Box, row_norms

DUALS = {"l2": 2.0, "linf": 1.0}  # of the dual norms: |w^T delta| <= ||w||_dual ||delta||
_OUTWARD = 1 + 1e-9  # far above the rounding of singular values and sums


def margin_lipschitz(model: nn.Module, labels: Tensor, *, norm: Norm) -> Tensor:
    r"""An upper bound [N] of the Lipschitz constant L_m of the true margin of each label, over all inputs.

    |m(x + delta, y) - m(x, y)| <= L_m ||delta||. The largest over rivals j of ||w_y - w_j||_2 times the spectral norms
    of the earlier layers and the slopes of their activations; for linf, sqrt(D) times that or |w_y - w_j| |W_L| ...
    |W_1| 1 times the slopes, whichever is smaller. For the networks that `chain` reads; `NoSoundBound` for all others.
    Costs a singular value decomposition per layer.

    >>> model = nn.Linear(2, 2)
    >>> _ = model.weight.data.copy_(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    >>> [round(margin_lipschitz(nn.Sequential(model), torch.tensor([0]), norm=n).item(), 6) for n in ("l2", "linf")]
    [5.0, 7.0]
    """
    look_up("norm", norm, DUALS)
    links = chain(model)
    _check_labels(labels, num_classes=len(links[-1].bias))
    return _pair_lipschitz(links, norm).amax(dim=1)[labels.long()]


def robust_margin_floor(model: nn.Module, inputs: Tensor, labels: Tensor, *, radius: float, norm: Norm) -> Tensor:
    r"""A lower bound [N] of the robust margin m_eps = inf_{||delta|| <= radius} m(x + delta), proved from the weights.

    For each rival j the better of two lower bounds of z_y - z_j: intervals through all layers, those of the first with
    half-width eps ||w||_dual, the last merged with the differences of classes; and z_y - z_j - eps L_yj with the
    Lipschitz constant of the pair. In float64, widened by what rounding may have changed: a statement about the network
    with its weights as stored and exact arithmetic, so margins computed in float32 can be below it by their own
    rounding. For the networks that `chain` reads; `NoSoundBound` for all others.

    >>> model = nn.Linear(2, 2, bias=False)
    >>> _ = model.weight.data.copy_(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    >>> point = torch.tensor([[1.0, 1.0]]), torch.tensor([0])
    >>> round(robust_margin_floor(nn.Sequential(model), *point, radius=0.5, norm="l2").item(), 6)  # 7 - 0.5 * 5
    4.5
    """
    dual = look_up("norm", norm, DUALS)
    links = chain(model)
    points = _checked(inputs, labels, num_features=links[0].weight.shape[1])
    _check_labels(labels, num_classes=len(links[-1].bias))
    if not 0 <= radius < math.inf:
        raise ValueError(f"`radius` must be at least 0 and finite, got {radius}.")
    floor = _lowest_differences(links, Ball(points, radius, dual), labels)  # [N, K]
    clean = _lowest_differences(links, Ball(points, 0.0, dual), labels)
    by_slope = clean - radius * _pair_lipschitz(links, norm)[labels.long()]
    floor = floor.nan_to_num(nan=-torch.inf).maximum(by_slope.nan_to_num(nan=-torch.inf))
    return floor.scatter(1, labels.long()[:, None], torch.inf).amin(dim=1)


def _pair_lipschitz(links: list[Link], norm: Norm) -> Tensor:
    *earlier, last = links
    slope = math.prod(link.activation.slope for link in earlier) * _OUTWARD
    gain = math.prod(float(torch.linalg.matrix_norm(link.weight, ord=2)) for link in earlier) * slope
    euclidean = torch.stack([row_norms(own - last.weight, 2.0) for own in last.weight]) * gain  # [K, K]
    if norm == "l2":
        return euclidean.nan_to_num(nan=torch.inf)  # infinity times 0: nothing is known
    reach = torch.ones_like(links[0].weight[0])  # how far each coordinate moves when no input moves by more than 1
    for link in earlier:
        reach = link.weight.abs() @ reach
    by_coordinate = torch.stack([(own - last.weight).abs() @ reach for own in last.weight]) * slope
    stretch = math.sqrt(links[0].weight.shape[1])  # ||delta||_2 <= sqrt(D) ||delta||_inf
    return by_coordinate.minimum(euclidean * stretch).nan_to_num(nan=torch.inf)


def _lowest_differences(links: list[Link], ball: Ball, labels: Tensor) -> Tensor:
    *earlier, last = links
    region: Ball | Box = ball
    for link in earlier:
        region = region.mapped(link.weight, link.bias).activated(link.activation)
    lowest = ball.centre.new_empty(len(labels), len(last.bias))
    for label in sorted(set(labels.tolist())):
        rows = (labels == label).nonzero()[:, 0]
        differences = last.weight[label] - last.weight, last.bias[label] - last.bias
        lowest[rows] = region[rows].mapped(*differences).lower
    return lowest  # [N, K], of z_y - z_j


def _check_labels(labels: Tensor, *, num_classes: int) -> None:
    if labels.is_floating_point() or labels.dtype == torch.bool or labels.ndim != 1 or not len(labels):
        raise ValueError(
            f"`labels` must be integers of shape [N], N at least 1, got {labels.dtype} of shape {list(labels.shape)}."
        )
    check_labels(labels.long(), num_classes=num_classes)


def _checked(inputs: Tensor, labels: Tensor, *, num_features: int) -> Tensor:
    if inputs.shape[:1] != labels.shape or inputs.numel() != len(labels) * num_features:
        raise ValueError(
            f"`inputs` must have shape [N, ...] with {num_features} features each for labels of shape [N], "
            f"got {list(inputs.shape)} for labels of shape {list(labels.shape)}."
        )
    points = inputs.detach().reshape(len(inputs), -1).double()
    check_finite(points, name="inputs")
    return points  # [N, D]
