"""Normal distributions by mean and by the number whose softplus is the deviation."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from surefoot.ensembles._convert import Layer


def divergence(mean: Tensor, std: Tensor, *, prior_mean: Tensor | float, prior_std: float) -> Tensor:
    r"""KL(N(mean, std^2) || N(prior)) = ln(prior std / std) + (std^2 + (mean - prior mean)^2) / (2 prior std^2) - 1/2.

    >>> one, tenth = torch.tensor(1.2, dtype=torch.float64), torch.tensor(0.05, dtype=torch.float64)
    >>> round(divergence(one, tenth, prior_mean=1.0, prior_std=0.1).item(), 8)
    2.31814718
    """
    return math.log(prior_std) - std.log() + (std**2 + (mean - prior_mean) ** 2) / (2 * prior_std**2) - 0.5


def inverse_softplus(std: float) -> float:
    """The number whose softplus is `std`: ln(e^std - 1).

    >>> round(inverse_softplus(1e-3), 8)
    -6.90725524
    """
    return std + math.log(-math.expm1(-std))


def first_rho(like: Tensor, *, std: float) -> Tensor:
    """Numbers around the one whose softplus is `std`, as they start: normal, deviation 0.1, cut at 0.2."""
    centre = inverse_softplus(std)
    return torch.nn.init.trunc_normal_(torch.empty_like(like), mean=centre, std=0.1, a=centre - 0.2, b=centre + 0.2)


def drawn(mean: Tensor, rho: Tensor) -> Tensor:
    """A draw from each normal distribution, differentiable in both."""
    return mean + F.softplus(rho) * torch.randn_like(mean)


def signs(number: int, size: int, layer: Layer) -> Tensor:
    """As many -1 and +1 as asked for, at random, of the layer's kind: [number, size]."""
    bits = torch.randint(2, (number, size), device=layer.weight.device)
    return (2 * bits - 1).to(layer.weight.dtype)


def check_positive(**stds: float) -> None:
    """Raise ValueError unless every deviation is positive."""
    for name, std in stds.items():
        if not std > 0:
            raise ValueError(f"`{name}` must be positive, got {std}.")
