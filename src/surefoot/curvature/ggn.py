"""Products with the Gauss-Newton matrix."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from surefoot.curvature.matrix import CurvatureMatrix, Linearised, Loss, check_twice_differentiable, first_not_finite


class GGN(CurvatureMatrix):
    r"""The Gauss-Newton matrix G = mean_i J_i^T H_i J_i of a loss at the model's present weights, as `G @ v`.

    J_i is the Jacobian of the logits of sample i, H_i the Hessian of its loss in the logits (diag p - p p^T for
    cross-entropy, (2/K) I for MSE), taken by autograd and so right for any twice differentiable loss of logits.
    Construction costs about one gradient, a product about another: J v is the derivative of the stored J^T u in u, then
    H on the logits alone, then J^T.
    """

    def _linearised(self, model: nn.Module, loss: Loss, inputs: Any, labels: Tensor) -> Linearised:
        logits: Tensor = model(inputs)  # [N, K]
        cotangent = torch.zeros_like(logits, requires_grad=True)
        pulled = torch.autograd.grad(  # J^T u, kept as a function of u
            logits, self.params, cotangent, create_graph=True, materialize_grads=True
        )
        check_twice_differentiable(logits, pulled)
        point = logits.detach().requires_grad_()
        mean = loss(point, labels).mean()
        if not mean.is_meta and not bool(mean.isfinite()):
            raise FloatingPointError(f"The loss is not finite, first in {first_not_finite(model, inputs)}.")
        (slope,) = torch.autograd.grad(mean, point, create_graph=True)  # [N, K]
        used = [k for k, part in enumerate(pulled) if part.requires_grad]

        def product(directions: Sequence[Tensor], batched: bool) -> Sequence[Tensor]:
            pushed = torch.autograd.grad(
                [pulled[k] for k in used],
                cotangent,
                [directions[k] for k in used],
                retain_graph=True,
                is_grads_batched=batched,
            )
            curved = torch.autograd.grad(slope, point, pushed, retain_graph=True, is_grads_batched=batched)
            return torch.autograd.grad(
                logits, self.params, curved, retain_graph=True, materialize_grads=True, is_grads_batched=batched
            )

        def gradient() -> Sequence[Tensor]:
            return torch.autograd.grad(logits, self.params, slope.detach(), retain_graph=True, materialize_grads=True)

        return Linearised(product, gradient)
