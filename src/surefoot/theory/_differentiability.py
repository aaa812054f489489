"""Where a model is not twice differentiable in its weights."""

import re
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction

from surefoot.curvature.matrix import differentiable_eval
from surefoot.theory._hidden_dependence import HiddenDependence

_POLYNOMIAL = """
    AccumulateGrad AdaptiveAvgPool2D AdaptiveAvgPool3D Add Addbmm Addcmul Addmm Addmv Addr Alias AsStrided AvgPool2D
    AvgPool3D Baddbmm Bmm Cat ChannelShuffle Clone Col2Im ConstantPadNd Convolution CopyBackwards CudnnBatchNorm
    CudnnConvolution Cumprod Cumsum DiagEmbed Diagonal Dot Embedding Expand Flip Gather Im2Col Index IndexAdd
    IndexSelect Lerp Linear Mean MkldnnConvolution Mm Mul Mv Neg NllLoss Permute PixelShuffle PixelUnshuffle Prod
    ReflectionPad1D ReflectionPad2D ReflectionPad3D Repeat ReplicationPad1D ReplicationPad2D ReplicationPad3D
    ReshapeAlias Roll Rsub Scatter ScatterAdd Select Slice Split SplitWithSizes Squeeze Stack Sub Sum T ToCopy Trace
    Transpose Tril Trilinear Triu Unbind Unfold UnsafeSplit UnsafeView Unsqueeze UpsampleBicubic2D
    UpsampleBilinear2D UpsampleLinear1D UpsampleNearest1D UpsampleNearest2D UpsampleNearest3D UpsampleTrilinear3D
    Var Vdot View
""".split()  # noqa: SIM905  as autograd calls them; indices and shapes being fixed
_CURVED = """
    Asinh Atan Cos Cosh Erf Erfc Exp Exp2 Expm1 FusedRmsNorm Gelu Glu Log Log10 Log1P Log2 LogSigmoid LogSoftmax
    Logaddexp Logcumsumexp Logsumexp Mish NativeBatchNorm NativeGroupNorm NativeLayerNorm Rsqrt SafeSoftmax Sigmoid
    Silu Sin Sinc Sinh Softmax Softplus Tan Tanh
""".split()  # noqa: SIM905  infinite at the end of their domain, if it has one, so a finite loss does not cross it
_SMOOTH = frozenset(_POLYNOMIAL + _CURVED)
_AWAY = 0.01  # of a root's largest value: the smallest must lie above, or the root counts as reaching 0


def kinks(model: nn.Module, inputs: Tensor) -> tuple[str, ...]:
    """Operations between the weights and the output not known to have a second derivative, each after its module.

    Read off the graph of a forward pass in eval mode, so that `F.relu` is found as well as `nn.ReLU`, and a maximum
    over raw inputs, which no weight moves, is not. What is not on a list of smooth operations counts, an
    `autograd.Function` of one's own for example; so does a smooth one with an index or mask that the weights decide.
    Roots and quotients are smooth where these inputs keep them away from 0: a root's smallest value above a hundredth
    of its largest, divisors of one sign. A one-sided second derivative, such as that of ELU, is none. A branch of
    Python code on a value is not seen. Empty for a smooth model. One forward pass.

    >>> import torch
    >>> kinks(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)), torch.ones(1, 2))
    ('1: Relu',)
    >>> kinks(nn.Sequential(nn.MaxPool1d(2), nn.Linear(2, 3), nn.Tanh()), torch.ones(1, 4))
    ()
    """
    owners: dict[Any, str] = {}  # of every node the module that made it

    def attribute(module: nn.Module, given: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            owners.update(dict.fromkeys(_nodes(output, excluded=owners), names[module]))

    names = {module: name or type(module).__name__ for name, module in model.named_modules()}
    hooks = [module.register_forward_hook(attribute) for module in names]  # inner modules end, and are named, first
    steered = HiddenDependence()
    try:
        with differentiable_eval(model), steered:
            output = model(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    used = set(_nodes(output, excluded={}))
    named = ((name, _kink(node, steered.nodes)) for node, name in owners.items() if node in used)
    return tuple(f"{name}: {kink}" for name, kink in named if kink)


def _nodes(output: Tensor, *, excluded: Any) -> Iterator[Any]:
    """The nodes behind an output that are not behind a known one, the nearest first."""
    waiting: list[Any] = [output.grad_fn]
    seen = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen or node in excluded:
            continue
        seen.add(node)
        yield node
        waiting.extend(following for following, _ in node.next_functions)


def _kink(node: Any, steered: set[Any]) -> str:
    """What to call it; nothing if the operation is smooth."""
    operation = re.sub(r"Backward\d*$", "", node.name().rpartition("::")[2])
    if isinstance(node, BackwardCFunction) or not _is_smooth(operation, node):
        return operation
    return f"{operation}, steered by the weights" if node in steered else ""


def _is_smooth(operation: str, node: Any) -> bool:
    if operation in _SMOOTH:
        return True
    if operation in ("Sqrt", "Std", "WeightNormInterface"):
        return _is_away(node._saved_result if operation != "WeightNormInterface" else node._saved_result1)
    if operation == "LinalgVectorNorm":
        return bool(node._saved_ord == 2) and _is_away(node._saved_result)
    if operation == "Reciprocal":
        return _has_one_sign(node._saved_result)
    if operation == "Div":
        if getattr(node, "_saved_rounding_mode", None) is not None:
            return False
        fixed = len(node.next_functions) < 2 or node.next_functions[1][0] is None
        return fixed or _has_one_sign(node._saved_other)
    if operation == "Pow" and isinstance(node._saved_exponent, int | float):
        base, exponent = node._saved_self, node._saved_exponent
        if exponent != int(exponent):
            return _is_away(base)
        return exponent >= 0 or _has_one_sign(base)
    return False


def _is_away(root: Tensor) -> bool:
    return bool(root.min() > _AWAY * root.max())


def _has_one_sign(values: Tensor) -> bool:
    return bool((values > 0).all() or (values < 0).all())
