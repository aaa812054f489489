"""Products with the Gauss-Newton matrix."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call
from torch.nn.modules.conv import _ConvNd

from surefoot.curvature.matrix import (
    PROBED,
    CurvatureMatrix,
    Linearised,
    Loss,
    check_twice_differentiable,
    differentiable_eval,
    first_not_finite,
    mean_loss,
)

Push = Callable[[Sequence[Tensor], bool], Tensor]  # directions, whether they come in rows -> J v


class GGN(CurvatureMatrix):
    r"""The Gauss-Newton matrix G = mean_i J_i^T H_i J_i of a loss at the model's present weights, as `G @ v`.

    J_i is the Jacobian of the logits of sample i, H_i the Hessian of its loss in the logits (diag p - p p^T for
    cross-entropy, (2/K) I for MSE), taken by autograd in float64 and so right for any twice differentiable loss of
    logits; one that offers `hessian_product(logits, vectors)` is asked instead: ours of cross-entropy loses no digit.
    J v comes first, then H on the logits alone, then J^T by the stored graph. J v is the derivative of a stored J^T u
    in u; construction and product then cost about one gradient each. Of a convolution that derivative is slow, so a
    model with some is run again in forward mode instead: more expensive than a gradient, cheaper than that.
    """

    def _linearised(self, model: nn.Module, loss: Loss, inputs: Any, labels: Tensor) -> Linearised:
        params = self.params  # closures must not hold the matrix that holds them: it would be freed late
        logits: Tensor = model(inputs)  # [N, K]
        push = _forward(model, inputs, dict(zip(self.names, params, strict=True))) or backward_twice(logits, params)
        point = logits.detach().requires_grad_()
        mean = mean_loss(loss, point, labels)
        if not mean.is_meta and not bool(mean.isfinite()):
            raise FloatingPointError(f"The loss is not finite, first in {first_not_finite(model, inputs)}.")
        (slope,) = torch.autograd.grad(mean, point, create_graph=True)  # [N, K]

        exact = getattr(loss, "hessian_product", None)

        def product(directions: Sequence[Tensor], batched: bool) -> Sequence[Tensor]:
            pushed = push(directions, batched)
            if exact is not None:
                curved: Tensor = exact(point.detach(), pushed) / len(point)
            else:
                (curved,) = torch.autograd.grad(slope, point, pushed, retain_graph=True, is_grads_batched=batched)
            return torch.autograd.grad(
                logits, params, curved, retain_graph=True, materialize_grads=True, is_grads_batched=batched
            )

        def gradient() -> Sequence[Tensor]:
            return torch.autograd.grad(logits, params, slope.detach(), retain_graph=True, materialize_grads=True)

        return Linearised(product, gradient)


def backward_twice(logits: Tensor, params: Sequence[Tensor]) -> Push:
    """J v as the derivative of J^T u in u."""
    cotangent = torch.zeros_like(logits, requires_grad=True)
    pulled = torch.autograd.grad(  # J^T u, kept as a function of u
        logits, params, cotangent, create_graph=True, materialize_grads=True
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


def _forward(model: nn.Module, inputs: Any, named: dict[str, Tensor]) -> Push | None:
    """J v by running the model on dual numbers; None where that is not faster, or not the same.

    It is not the same where the model cuts its graph by `no_grad`, which dual numbers do not heed, or reads a
    weight that it has not registered: so the two ways are compared on a few samples first.
    """
    if not isinstance(inputs, Tensor) or inputs.is_meta:
        return None
    if not any(isinstance(module, _ConvNd) for module in model.modules()):
        return None

    def one(samples: Tensor, directions: Sequence[Tensor]) -> Tensor:
        with differentiable_eval(model), torch.inference_mode(False), torch.no_grad(), forward_ad.dual_level():
            weights = {
                name: forward_ad.make_dual(p.detach(), direction)  # type: ignore[no-untyped-call]
                for (name, p), direction in zip(named.items(), directions, strict=True)
            }
            logits = functional_call(model, weights, (samples,))
            tangent: Tensor | None = forward_ad.unpack_dual(logits).tangent  # type: ignore[no-untyped-call]
            if tangent is None:
                raise RuntimeError("The logits do not depend on the weights.")
            return tangent.clone()

    def push(directions: Sequence[Tensor], batched: bool) -> Tensor:
        if batched:
            return torch.stack([one(inputs, row) for row in zip(*directions, strict=True)])
        return one(inputs, directions)

    few = inputs[:PROBED]
    tried = [torch.arange(p.numel(), device=p.device).to(p).cos().view_as(p) for p in named.values()]
    expected = backward_twice(model(few), list(named.values()))(tried, False)
    try:
        tangents = one(few, tried)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:  # an operation has no forward derivative
        return None
    error = (tangents - expected).norm() / expected.norm().clamp(min=torch.finfo(expected.dtype).tiny)
    return push if float(error) < torch.finfo(expected.dtype).eps ** 0.5 * 10 else None
