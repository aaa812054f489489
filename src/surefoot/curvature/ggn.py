"""Products with the Gauss-Newton matrix."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call
from torch.nn.modules.conv import _ConvNd

from surefoot.curvature.matrix import (
    CurvatureMatrix,
    Linearised,
    Loss,
    check_twice_differentiable,
    first_not_finite,
    looking,
)

Push = Callable[[Sequence[Tensor], bool], Tensor]  # directions, whether they come in rows -> J v


class GGN(CurvatureMatrix):
    r"""The Gauss-Newton matrix G = mean_i J_i^T H_i J_i of a loss at the model's present weights, as `G @ v`.

    J_i is the Jacobian of the logits of sample i, H_i the Hessian of its loss in the logits (diag p - p p^T for
    cross-entropy, (2/K) I for MSE), taken by autograd and so right for any twice differentiable loss of logits.
    J v comes first, then H on the logits alone, then J^T by the stored graph. J v is the derivative of a stored J^T u
    in u; construction and product then cost about one gradient each. Of a convolution that derivative is slow, so a
    model with some is run again in forward mode instead: nearly half the price, about 1.7 gradients.
    """

    def _linearised(self, model: nn.Module, loss: Loss, inputs: Any, labels: Tensor) -> Linearised:
        logits: Tensor = model(inputs)  # [N, K]
        convolves = any(isinstance(module, _ConvNd) for module in model.modules())
        push = self._forward(model, inputs, logits) if convolves else self._backward_twice(logits)
        point = logits.detach().requires_grad_()
        mean = loss(point, labels).mean()
        if not mean.is_meta and not bool(mean.isfinite()):
            raise FloatingPointError(f"The loss is not finite, first in {first_not_finite(model, inputs)}.")
        (slope,) = torch.autograd.grad(mean, point, create_graph=True)  # [N, K]

        def product(directions: Sequence[Tensor], batched: bool) -> Sequence[Tensor]:
            pushed = push(directions, batched)
            curved = torch.autograd.grad(slope, point, pushed, retain_graph=True, is_grads_batched=batched)
            return torch.autograd.grad(
                logits, self.params, curved, retain_graph=True, materialize_grads=True, is_grads_batched=batched
            )

        def gradient() -> Sequence[Tensor]:
            return torch.autograd.grad(logits, self.params, slope.detach(), retain_graph=True, materialize_grads=True)

        return Linearised(product, gradient)

    def _backward_twice(self, logits: Tensor) -> Push:
        cotangent = torch.zeros_like(logits, requires_grad=True)
        pulled = torch.autograd.grad(  # J^T u, kept as a function of u
            logits, self.params, cotangent, create_graph=True, materialize_grads=True
        )
        check_twice_differentiable(logits, pulled)
        used = [k for k, part in enumerate(pulled) if part.requires_grad]

        def push(directions: Sequence[Tensor], batched: bool) -> Tensor:
            (pushed,) = torch.autograd.grad(
                [pulled[k] for k in used],
                cotangent,
                [directions[k] for k in used],
                retain_graph=True,
                is_grads_batched=batched,
            )
            return pushed

        return push

    def _forward(self, model: nn.Module, inputs: Any, logits: Tensor) -> Push:
        """J v by running the model on dual numbers; where an operation cannot, as for models without convolutions."""
        instead: list[Push] = []

        def one(directions: Sequence[Tensor]) -> Tensor:
            with looking(model), torch.no_grad(), forward_ad.dual_level():
                weights = {
                    name: forward_ad.make_dual(p.detach(), direction)  # type: ignore[no-untyped-call]
                    for name, p, direction in zip(self.names, self.params, directions, strict=True)
                }
                found = functional_call(model, weights, (inputs,))
                tangent: Tensor | None = forward_ad.unpack_dual(found).tangent  # type: ignore[no-untyped-call]
                return torch.zeros_like(logits) if tangent is None else tangent.clone()

        def push(directions: Sequence[Tensor], batched: bool) -> Tensor:
            if not instead:
                try:
                    if batched:
                        return torch.stack([one(row) for row in zip(*directions, strict=True)])
                    return one(directions)
                except (RuntimeError, ValueError):  # no forward derivative of some operation
                    instead.append(self._backward_twice(logits))
            return instead[0](directions, batched)

        return push
