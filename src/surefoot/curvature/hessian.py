"""Products with the Hessian."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from surefoot.curvature.matrix import (
    CurvatureMatrix,
    Linearised,
    Loss,
    check_twice_differentiable,
    first_not_finite,
    mean_loss,
)


class Hessian(CurvatureMatrix):
    """The Hessian of the mean loss at the model's present weights, as `H @ v`.

    Construction keeps the gradient's graph; it and a product cost one to two gradients each. Unlike the Gauss-Newton
    matrix it sees how the network itself bends, and can have negative eigenvalues.
    """

    def _linearised(self, model: nn.Module, loss: Loss, inputs: Any, labels: Tensor) -> Linearised:
        params = self.params  # closures must not hold the matrix that holds them: it would be freed late
        mean = mean_loss(loss, model(inputs), labels)
        if not mean.is_meta and not bool(mean.isfinite()):
            raise FloatingPointError(f"The loss is not finite, first in {first_not_finite(model, inputs)}.")
        slope = torch.autograd.grad(mean, params, create_graph=True, materialize_grads=True)
        check_twice_differentiable(mean, slope)
        used = [k for k, part in enumerate(slope) if part.requires_grad]

        def product(directions: Sequence[Tensor], batched: bool) -> Sequence[Tensor]:
            if not used:
                return [torch.zeros_like(direction) for direction in directions]
            return torch.autograd.grad(
                [slope[k] for k in used],
                params,
                [directions[k] for k in used],
                retain_graph=True,
                materialize_grads=True,
                is_grads_batched=batched,
            )

        return Linearised(product, lambda: [part.detach() for part in slope])
