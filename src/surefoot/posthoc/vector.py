"""Vector scaling."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from surefoot.posthoc._affine import DIAGONAL, fit_unpenalised
from surefoot.posthoc.map import Map
from surefoot.predictions import Predictions


@dataclass(frozen=True, eq=False)
class Vector(Map):
    """The map z -> weight * z + bias, one weight and one bias per class, of least NLL. Guo et al. 2017.

    Cost: some ten Newton steps of some ten passes over the logits each.
    """

    weight: Tensor  # [K]
    bias: Tensor  # [K], defined up to a common shift

    def _mapped(self, logits: Tensor) -> Tensor:
        return logits * self.weight.to(logits.device) + self.bias.to(logits.device)

    @classmethod
    @torch.no_grad()
    def fit(cls, predictions: Predictions, *, max_steps: int = 100) -> Self:
        """The weights that minimise the NLL; the certificate is the infinity norm of its gradient.

        Raises ValueError where there are none: a class without samples, or weights that get every sample right.
        """
        best = fit_unpenalised(predictions, DIAGONAL, max_steps=max_steps)
        return cls(*best.place, fitted=best.record(predictions))
