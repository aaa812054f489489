"""Where a model is not twice differentiable in its weights."""

import re
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction

from surefoot.curvature.matrix import looking

_KINKED = """
    Abs AdaptiveMaxPool2D AdaptiveMaxPool3D Amax Amin Aminmax Ceil Celu Clamp ClampMax ClampMin Cummax Cummin Elu Floor
    FractionalMaxPool2D FractionalMaxPool3D Hardshrink Hardsigmoid Hardswish Hardtanh Kthvalue LeakyRelu
    Max MaxPool2DWithIndices MaxPool3DWithIndices Maximum Median Min Minimum NanToNum PreluKernel Relu Round
    RreluWithNoise Sgn Sign Softshrink Sort Threshold Topk Trunc Where
""".split()  # noqa: SIM905  as autograd calls them; a one-sided second derivative, such as that of ELU, counts as a kink


def kinks(model: nn.Module, inputs: Tensor) -> tuple[str, ...]:
    """Operations between the weights and the output that may have no second derivative, each after its module.

    Read off the graph of a forward pass in eval mode, so that `F.relu` is found as well as `nn.ReLU`, and a maximum
    over raw inputs, which no weight moves, is not. An `autograd.Function` of one's own counts, because nothing is known
    of it. A product with a mask computed from activations is not seen. Empty for a smooth model. One forward pass.

    >>> import torch
    >>> kinks(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)), torch.ones(1, 2))
    ('1: Relu',)
    >>> kinks(nn.Sequential(nn.MaxPool1d(2), nn.Linear(2, 3), nn.Tanh()), torch.ones(1, 4))
    ()
    """
    found: list[str] = []
    seen: set[Any] = set()

    def attribute(module: nn.Module, given: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            found.extend(f"{names[module]}: {kink}" for kink in _new_kinks(output, seen))

    names = {module: name or type(module).__name__ for name, module in model.named_modules()}
    hooks = [module.register_forward_hook(attribute) for module in names]  # inner modules end, and are named, first
    try:
        with looking(model):
            model(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return tuple(found)


def _new_kinks(output: Tensor, seen: set[Any]) -> Iterator[str]:
    waiting = [output.grad_fn]
    while waiting:
        node: Any = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        operation = re.sub(r"Backward\d*$", "", node.name())
        if operation in _KINKED or isinstance(node, BackwardCFunction):
            yield operation
        waiting.extend(following for following, _ in node.next_functions)
