"""The largest curvature eigenvalue of a model's loss, in one call."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from surefoot.curvature.eigen import Eigenpair, top_eigenpair, warm_start
from surefoot.curvature.ggn import GGN
from surefoot.curvature.matrix import CurvatureMatrix, Loss
from surefoot.params import flat
from surefoot.registry import look_up

_SIGNS = {"largest": 1.0, "smallest": -1.0}


def sharpness(
    model: nn.Module,
    loss: Loss,
    data: tuple[Tensor, Tensor] | Iterable[tuple[Any, Tensor]],
    *,
    matrix: type[CurvatureMatrix] = GGN,
    which: Literal["largest", "smallest"] = "largest",
    tolerance: float = 0.01,
    max_matvecs: int = 100,
    seed: int = 0,
) -> Eigenpair:
    """The algebraically largest (or smallest) eigenvalue of the Gauss-Newton matrix or the Hessian, with its residual.

    `data` is a pair of tensors, inputs and labels, or batches of such pairs, for example a `DataLoader`. About ten
    gradients of all the data. The model is looked at in eval mode and left as found.

    >>> model = nn.Linear(2, 3)
    >>> found = sharpness(model, nn.CrossEntropyLoss(), (torch.eye(2), torch.tensor([0, 1])))
    >>> found.converged
    True
    """
    sign = look_up("end of the spectrum", which, _SIGNS)
    whole = isinstance(data, tuple) and len(data) == 2 and all(isinstance(part, Tensor) for part in data)
    curvature = matrix(model, loss, *data) if whole else matrix.over(model, loss, data)  # type: ignore[arg-type]
    like = flat([p.detach() for p in curvature.params])
    if like.dtype.itemsize < 4:  # the weights may be of low precision, the subspace may not
        like = like.float()
    start = warm_start(None, like=like, generator=torch.Generator().manual_seed(seed))
    found = top_eigenpair(
        lambda v: sign * (curvature @ v), start, tolerance=tolerance, max_matvecs=min(max_matvecs, curvature.size + 1)
    )
    return replace(found, value=sign * found.value)
