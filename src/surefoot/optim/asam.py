"""Adaptive SAM."""

from typing import Any

from torch import Tensor
from torch.optim import SGD, Optimizer

from surefoot.optim._closure import Params
from surefoot.optim.sam import SAM, Group, total_norm


class ASAM(SAM):
    r"""SAM with a perturbation in proportion to the weights, rho T^2 g / ||T g||, T = |w| + eta. Kwon et al. 2021.

    Invariant to rescaling layers against each other. T is |w| + eta for weights and 1 for the rest, where a weight is a
    parameter whose name has "weight" in it, as in the official code; where `params` come without names, one of at
    least two dimensions (our choice). `everywhere` counts all parameters as weights, as other ports do. `rho` is
    about ten times that of SAM. Two gradients per step.
    """

    def __init__(
        self,
        params: Params,
        base: type[Optimizer] = SGD,
        *,
        rho: float = 0.5,
        eta: float = 0.01,
        everywhere: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(params, base, rho=rho, **options)
        if not eta >= 0:
            raise ValueError(f"`eta` must be at least 0, got {eta}.")
        self.eta = eta
        self.everywhere = everywhere

    def _climb(self, groups: list[Group], grad_scale: float) -> None:
        weights = self._weights()
        for _, params, gradients in groups:  # the weights hold T g for a moment: they are saved, and memory is spared
            for p, gradient in zip(params, gradients, strict=True):
                self._size(p, weights).mul_(gradient)
        self._norm = total_norm(params for _, params, _ in groups)
        for group, params, gradients in groups:
            for p, gradient in zip(params, gradients, strict=True):
                home = self._home[p]
                self._size(p.copy_(home), weights).square_().mul_(gradient)
                p.mul_(group["rho"] / (self._norm + 1e-16)).add_(home)

    def _size(self, p: Tensor, weights: set[Tensor]) -> Tensor:
        return p.abs_().add_(self.eta) if p in weights else p.fill_(1.0)

    def _weights(self) -> set[Tensor]:
        scaled = set()
        for group in self.param_groups:
            names = group.get("param_names", [None] * len(group["params"]))
            for name, p in zip(names, group["params"], strict=True):
                if self.everywhere or (p.ndim > 1 if name is None else "weight" in name):
                    scaled.add(p)
        return scaled
