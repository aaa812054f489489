"""A network as a chain of linear maps and activations: the ones of which something can be proved."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from surefoot.models.mlp import MLP


class NoSoundBound(ValueError):
    """The network has a layer of which no bound is known; its robust margins can only be attacked."""


@dataclass(frozen=True)
class Activation:
    """A function of one number that falls up to `lowest_at` and rises from there, never steeper than `slope`."""

    function: Callable[[Tensor], Tensor]
    slope: float
    lowest_at: float = -math.inf


IDENTITY = Activation(lambda values: values, slope=1.0)
GELU = Activation(
    F.gelu,
    slope=(1 + math.erf(1)) / 2 + math.exp(-1) / math.sqrt(math.pi),  # at sqrt(2), where x Phi(x) turns: 1.1289
    lowest_at=-0.7517915246935645,  # where Phi(x) + x phi(x) = 0
)
_ACTIVATIONS: dict[type[nn.Module], Activation] = {
    nn.GELU: GELU,
    nn.ReLU: Activation(torch.relu, slope=1.0),
    nn.Sigmoid: Activation(torch.sigmoid, slope=0.25),
    nn.Tanh: Activation(torch.tanh, slope=1.0),
}


@dataclass(frozen=True)
class Link:
    """x -> activation(W x + b), in float64."""

    weight: Tensor  # [O, I]
    bias: Tensor  # [O]
    activation: Activation


def chain(model: nn.Module) -> list[Link]:
    """The links of an `MLP`, or of an `nn.Sequential` of flattening, linear maps and known activations.

    The last has the identity as its activation: its outputs are the logits. Types are compared exactly, because a
    subclass may compute anything. Everything else raises `NoSoundBound`.
    """
    links: list[Link] = []
    for name, layer in _layers("", model):
        if type(layer) is nn.Linear:
            weight = layer.weight.detach().double()
            bias = torch.zeros_like(weight[:, 0]) if layer.bias is None else layer.bias.detach().double()
            if not bool(weight.isfinite().all() and bias.isfinite().all()):
                raise ValueError(f"`model` must have finite weights, got NaN or inf in layer {name!r}.")
            links.append(Link(weight, bias, IDENTITY))
        elif type(layer) in _ACTIVATIONS and not (isinstance(layer, nn.GELU) and layer.approximate != "none"):
            if not links:
                raise _refused(name, layer, "a linear map must come before it")
            if links[-1].activation is not IDENTITY:
                links.append(Link(torch.eye(len(links[-1].bias)).to(links[-1].bias), links[-1].bias * 0, IDENTITY))
            links[-1] = replace(links[-1], activation=_ACTIVATIONS[type(layer)])
        else:
            raise _refused(name, layer, "its bound is not known")
    if not links or links[-1].activation is not IDENTITY:
        raise _refused("", model, "it must end with a linear map")
    if len(links[-1].bias) < 2:
        raise ValueError(f"`model` must have at least 2 logits, got {len(links[-1].bias)}.")
    return links


def _layers(name: str, module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    if module._forward_hooks or module._forward_pre_hooks:
        raise _refused(name, module, "a hook may change what it computes")
    if type(module) is MLP:
        yield from _layers(f"{name}.layers".lstrip("."), module.layers)
    elif type(module) is nn.Sequential:
        for child, layer in zip(module._modules, module, strict=True):  # `named_children` leaves out repeated layers
            yield from _layers(f"{name}.{child}".lstrip("."), layer)
    elif type(module) is nn.Flatten and (module.start_dim, module.end_dim) == (1, -1):
        return  # inputs come flattened
    elif type(module) is not nn.Identity:
        yield name, module


def _refused(name: str, layer: nn.Module, why: str) -> NoSoundBound:
    where = f"Layer {name!r}, a {type(layer).__name__}," if name else f"The network, a {type(layer).__name__},"
    return NoSoundBound(f"{where} has no sound bound: {why}. Only an attack is available (attack only: not a proof).")
