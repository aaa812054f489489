"""Products with the Gauss-Newton matrix."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from surefoot.mode import evaluating
from surefoot.params import flat, unflat


class GGN:
    r"""The Gauss-Newton matrix G = mean_i J_i^T H_i J_i of a loss at the model's present weights, as `G @ v`.

    J_i is the Jacobian of the logits of sample i, H_i the Hessian of its loss in the logits (diag p - p p^T for
    cross-entropy, (2/K) I for MSE), taken by autograd and so right for any twice differentiable loss of logits.
    Construction costs about one gradient and keeps the graph, a product about another: J v is the derivative of
    the stored J^T u in u, then H on the logits alone, then J^T. The model is looked at in eval mode and left as found:
    mode, `.grad` and generators. Weights must not change while the object lives.
    """

    def __init__(
        self, model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], inputs: Tensor, labels: Tensor
    ) -> None:
        self.params = [p for p in model.parameters() if p.requires_grad]
        if not self.params:
            raise ValueError("`model` must have at least one parameter that requires a gradient, got none.")
        with evaluating(model), torch.enable_grad():
            self._logits: Tensor = model(inputs)  # [N, K]
            self._cotangent = torch.zeros_like(self._logits, requires_grad=True)
            self._pulled = torch.autograd.grad(  # J^T u, kept as a function of u
                self._logits, self.params, self._cotangent, create_graph=True, materialize_grads=True
            )
            self._point = self._logits.detach().requires_grad_()
            mean = loss(self._point, labels).mean()
            (self._slope,) = torch.autograd.grad(mean, self._point, create_graph=True)  # [N, K]

    def __matmul__(self, vector: Tensor) -> Tensor:
        """G v for a flat vector v [P]."""
        direction = unflat(vector, self.params)
        (pushed,) = torch.autograd.grad(self._pulled, self._cotangent, direction, retain_graph=True)
        (curved,) = torch.autograd.grad(self._slope, self._point, pushed, retain_graph=True)
        back = torch.autograd.grad(self._logits, self.params, curved, retain_graph=True, materialize_grads=True)
        return flat(back)
