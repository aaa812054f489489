"""Copies of a ReLU network that say the same louder, and copies of equal curvature among them."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from surefoot.curvature import sharpness
from surefoot.curvature.matrix import Loss

_ALLOWED = (nn.Flatten, nn.Identity, nn.Linear, nn.ReLU)
_WIDEST = 12.0  # of the logarithm of the balance: curvature grows with its square
_GOLDEN = (math.sqrt(5) - 1) / 2


def linear_layers(model: nn.Module) -> list[nn.Linear]:
    """The linear layers of a network that has nothing else but ReLU between them; ValueError for any other."""
    leaves = [module for module in model.modules() if not any(module.children())]
    other = [type(module).__name__ for module in leaves if not isinstance(module, _ALLOWED)]
    layers = [module for module in leaves if isinstance(module, nn.Linear)]
    if other or len(layers) < 2:
        problem = other[0] if other else f"{len(layers)} linear layers"
        raise ValueError(f"`model` must be at least two linear layers with ReLU between them, got {problem}.")
    return layers


def rescaled(model: nn.Module, *, logits: float = 1.0, balance: float = 1.0) -> nn.Module:
    """A copy whose logits are `logits` times as large, its first layer `balance` times and the second as much smaller.

    ReLU passes a positive factor on, so the balance changes no output, whatever it is; it changes curvature without
    limit.

    >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)).double()
    >>> x = torch.eye(2, dtype=torch.float64)
    >>> torch.testing.assert_close(rescaled(model, logits=3.0, balance=7.0)(x), 3 * model(x))
    """
    if not (logits > 0 and balance > 0):
        raise ValueError(f"`logits` and `balance` must be positive, got {logits} and {balance}.")
    made = copy.deepcopy(model)
    layers = linear_layers(made)
    with torch.no_grad():
        for p in layers[0].parameters():
            p.mul_(balance)
        layers[1].weight.div_(balance)
        for p in layers[-1].parameters():
            p.mul_(logits)
    return made


@dataclass(frozen=True)
class Decoupled:
    """A network with other margins at the curvature of the one it came from, or as near to it as balances go."""

    model: nn.Module
    balance: float
    ratio: float  # of its GN sharpness to that of the one it came from
    same: bool  # as that of the network it came from, within the tolerance


def decoupled(
    model: nn.Module, loss: Loss, inputs: Tensor, labels: Tensor, *, logits: float, tolerance: float = 0.01
) -> Decoupled:
    """The network with its logits multiplied, balanced so that its GN sharpness is that of the network as it is.

    Where the multiplied network is flatter, a larger balance makes it sharper until both agree: bisection. Where it is
    sharper, the flattest balance is sought first, by golden section; if even that is too sharp, it is what is returned,
    and `same` is false. About ten gradients for each of some twenty tries.
    """

    def value_of(network: nn.Module) -> float:
        return sharpness(network, loss, (inputs, labels), tolerance=tolerance / 10).value

    def tried(log_balance: float) -> float:
        return value_of(rescaled(model, logits=logits, balance=math.exp(log_balance)))

    target = value_of(model)
    at = 0.0
    value = tried(at)
    if value > target * (1 + tolerance):
        at = _flattest(tried)
        value = tried(at)
    if value < target * (1 - tolerance):
        low, high = at, at + 1.0
        while tried(high) < target and high < _WIDEST:
            low, high = high, high + 1.0
        while abs(value / target - 1) > tolerance and high - low > 1e-6:
            at = (low + high) / 2
            value = tried(at)
            low, high = (low, at) if value > target else (at, high)
    balance, ratio = math.exp(at), value / target
    return Decoupled(rescaled(model, logits=logits, balance=balance), balance, ratio, same=abs(ratio - 1) <= tolerance)


def _flattest(tried: Callable[[float], float]) -> float:
    """The log balance of least curvature: falling, then rising, so golden section finds it."""
    low, high = -_WIDEST / 2, _WIDEST / 2
    one, two = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    first, second = tried(one), tried(two)
    while high - low > 0.02:
        if first < second:
            high, two, second = two, one, first
            one = high - _GOLDEN * (high - low)
            first = tried(one)
        else:
            low, one, first = one, two, second
            two = low + _GOLDEN * (high - low)
            second = tried(two)
    return (low + high) / 2
