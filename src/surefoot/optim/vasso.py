"""Variance-suppressed SAM."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Optimizer

from surefoot.optim._closure import Params, parameters
from surefoot.optim.sam import SAM, Group, total_norm


class VASSO(SAM):
    r"""SAM that climbs a running mean of gradients, d <- (1 - theta) d + theta g. Li and Giannakis 2023.

    The mean begins with the first gradient; `theta` = 1 is SAM. Two gradients per step, and one more copy of the
    weights than SAM.
    """

    def __init__(
        self,
        params: Params,
        base: type[Optimizer] = SGD,
        *,
        rho: float = 0.05,
        theta: float = 0.9,
        **options: Any,
    ) -> None:
        super().__init__(params, base, rho=rho, **options)
        if not 0 < theta <= 1:
            raise ValueError(f"`theta` must lie above 0 and at most 1, got {theta}.")
        self.theta = theta
        self._mean: dict[Tensor, Tensor] = {}

    def _climb(self, groups: list[Group], grad_scale: float) -> None:
        if not math.isfinite(total_norm(gradients for _, _, gradients in groups)):
            super()._climb(groups, grad_scale)  # an overflow, to be seen by all; in the mean it would stay for good
            return
        for _, params, gradients in groups:
            for p, gradient in zip(params, gradients, strict=True):
                if p not in self._mean:
                    self._mean[p] = gradient / grad_scale
                else:
                    self._mean[p].mul_(1 - self.theta).add_(gradient, alpha=self.theta / grad_scale)
        means = [(group, params, [self._mean[p] for p in params]) for group, params, _ in groups]
        self._norm = total_norm(mean for _, _, mean in means)
        for group, params, mean in means:
            torch._foreach_add_(params, mean, alpha=group["rho"] / (self._norm + 1e-7))

    def _memory(self) -> dict[str, Any]:
        return {"mean": {place: self._mean[p] for place, p in enumerate(parameters(self)) if p in self._mean}}

    def _remember(self, memory: dict[str, Any]) -> None:
        params = parameters(self)
        self._mean = {params[place]: mean.to(params[place]).clone() for place, mean in memory.get("mean", {}).items()}
