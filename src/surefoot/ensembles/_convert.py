"""From a plain model to one with other layers."""

from collections.abc import Callable
from copy import deepcopy

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

Layer = nn.Linear | nn.Conv2d
_LEFT = (_NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.PReLU)  # a few numbers per channel: these stay shared


def converted(model: nn.Module, replace: Callable[[Layer], nn.Module]) -> nn.Module:
    """A copy of `model` with `replace(layer)` in the place of every Linear and Conv2d; a shared one stays shared.

    Normalisation layers and parameters of the model's own modules, such as a class token, are left as they are. Raises
    ValueError where torch's layers hold weights in another way, which would be left out unseen.
    """
    copy = deepcopy(model)
    layers = convertible(copy)
    new = {id(layer): replace(layer) for layer in dict.fromkeys(layers.values())}
    if "" in layers:
        return new[id(copy)]
    for name, layer in layers.items():
        copy.set_submodule(name, new[id(layer)])
    return copy


def convertible(model: nn.Module) -> dict[str, Layer]:
    """Every Linear and Conv2d by name, in order; ValueError if there is none, or a layer that cannot be converted."""
    layers: dict[str, Layer] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        own = {parameter for parameter, _ in module.named_parameters(recurse=False)}
        if type(module) in (nn.Linear, nn.Conv2d) and own <= {"weight", "bias"}:
            layers[name] = module
        elif isinstance(module, Layer) or (
            own and type(module).__module__.startswith("torch.nn") and not isinstance(module, _LEFT)
        ):
            raise ValueError(
                f"`model` must have its weights in plain Linear and Conv2d layers: layer {name!r}, a "
                f"{type(module).__name__}, cannot be converted."
            )
    if not layers:
        raise ValueError(
            f"`model` must have a Linear or Conv2d layer to convert, got a {type(model).__name__} of none."
        )
    return layers


def channels(layer: Layer) -> tuple[int, int]:
    """How many go in and out."""
    if isinstance(layer, nn.Linear):
        return layer.in_features, layer.out_features
    return layer.in_channels, layer.out_channels


def per_channel(values: Tensor, layer: Layer, like: Tensor) -> Tensor:
    """Values [N, C], shaped to multiply inputs or outputs [N, ...] of the layer."""
    ones = (1,) * (like.ndim - 2)
    return values.view(len(values), *((*ones, -1) if isinstance(layer, nn.Linear) else (-1, *ones)))


def without_bias(layer: Layer) -> Tensor | None:
    """Take the bias off a layer, and return it."""
    bias = layer.bias
    layer.register_parameter("bias", None)
    return bias
