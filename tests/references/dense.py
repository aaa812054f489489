"""Curvature once more, with whole Jacobians and whole matrices."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, hessian, jacrev


def dense_hessian(model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], inputs: Tensor, labels: Tensor) -> Tensor:
    """All second derivatives of the mean loss."""
    shapes = {name: p.shape for name, p in model.named_parameters() if p.requires_grad}
    sizes = [shape.numel() for shape in shapes.values()]

    def mean(vector: Tensor) -> Tensor:
        parts = zip(shapes.items(), vector.split(sizes), strict=True)
        values = {name: part.view(shape) for (name, shape), part in parts}
        return loss(functional_call(model, values, (inputs,)), labels).mean()

    return hessian(mean)(torch.cat([p.detach().flatten() for p in model.parameters() if p.requires_grad]))


def dense_ggn(model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], inputs: Tensor, labels: Tensor) -> Tensor:
    """mean_i J_i^T H_i J_i, assembled sample by sample."""
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    params = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    total = 0
    for x, y in zip(inputs, labels, strict=True):

        def logits(values: dict[str, Tensor], x: Tensor = x) -> Tensor:
            return functional_call(model, values, (x[None],))[0]

        jacobian = jacrev(logits)(params)
        rows = torch.cat([jacobian[name].reshape(jacobian[name].shape[0], -1) for name in names], dim=1)  # [K, P]
        middle = hessian(lambda z, y=y: loss(z[None], y[None])[0])(logits(params))  # [K, K]
        total = total + rows.T @ middle @ rows
    return total / len(inputs)
