"""The largest curvature eigenvalue of a model's loss, in one call."""

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn

from surefoot.curvature.eigen import Which, eigenpairs, random_source
from surefoot.curvature.eigenpair import Eigenpair
from surefoot.curvature.ggn import GGN
from surefoot.curvature.matrix import CurvatureMatrix, Loss

Data = tuple[Tensor, Tensor] | Iterable[tuple[Any, Tensor]]


def sharpness(
    model: nn.Module,
    loss: Loss,
    data: Data,
    *,
    matrix: type[CurvatureMatrix] = GGN,
    which: Which = "largest algebraic",
    only: Callable[[str], bool] = lambda name: True,
    tolerance: float = 0.01,
    delta: float = 0.05,
    max_matvecs: int = 100,
    seed: int = 0,
) -> Eigenpair:
    """The largest eigenvalue of the Gauss-Newton matrix or the Hessian, between `value` and `bound`.

    `data` is a pair of tensors, inputs and labels, or batches of such pairs, for example a `DataLoader`. `only` keeps
    the parameters whose name it accepts. About ten gradients of all the data. The model is evaluated in eval mode and
    restored.

    >>> import torch
    >>> model = nn.Linear(2, 3)
    >>> pair = sharpness(model, nn.CrossEntropyLoss(), (torch.eye(2), torch.tensor([0, 1])))
    >>> pair.converged
    True
    """
    curvature = _matrix_of(matrix, model, loss, data, only)
    (pair,) = eigenpairs(
        curvature.__matmul__,
        curvature.like,
        which=which,
        tolerance=tolerance,
        delta=delta,
        max_matvecs=max_matvecs,
        generator=random_source(seed),
    )
    return pair


def sharpness_by_layer(
    model: nn.Module, loss: Loss, data: Data, *, matrix: type[CurvatureMatrix] = GGN, **options: Any
) -> dict[str, Eigenpair]:
    """`sharpness` of each layer alone, the other weights fixed: of the diagonal blocks, by the layer's name.

    A layer is a module with trainable parameters of its own. Each costs as much as the whole.

    >>> import torch
    >>> model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3))
    >>> list(sharpness_by_layer(model, nn.CrossEntropyLoss(), (torch.eye(2), torch.tensor([0, 1]))))
    ['0', '2']
    """
    named = [name for name, p in model.named_parameters() if p.requires_grad]
    if not isinstance(data, tuple):
        data = list(data)  # read once, used by every layer
    pairs = {}
    for layer in dict.fromkeys(map(_layer, named)):
        own = {name for name in named if _layer(name) == layer}
        pairs[layer] = sharpness(model, loss, data, matrix=matrix, only=own.__contains__, **options)
    return pairs


def _layer(parameter: str) -> str:
    return parameter.rpartition(".")[0]


def _matrix_of(
    matrix: type[CurvatureMatrix], model: nn.Module, loss: Loss, data: Data, only: Callable[[str], bool]
) -> CurvatureMatrix:
    if isinstance(data, tuple) and len(data) == 2 and all(isinstance(part, Tensor) for part in data):
        return matrix(model, loss, *data, only=only)
    return matrix.over(model, loss, data, only=only)  # type: ignore[arg-type]
