"""Matrix scaling."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from surefoot.posthoc._affine import FULL, fit_unpenalised
from surefoot.posthoc.map import Map
from surefoot.predictions import Predictions


@dataclass(frozen=True, eq=False)
class Matrix(Map):
    """The map z -> weight z + bias of least NLL; its K^2 + K numbers overfit where classes are many. Guo et al. 2017.

    Cost: some ten Newton steps of some hundred products of the logits with a K x K matrix each.
    """

    weight: Tensor  # [K, K], its columns defined up to a common shift
    bias: Tensor  # [K], defined up to a common shift

    def _mapped(self, logits: Tensor) -> Tensor:
        return logits @ self.weight.T.to(logits.device) + self.bias.to(logits.device)

    @classmethod
    @torch.no_grad()
    def fit(cls, predictions: Predictions, *, max_steps: int = 100) -> Self:
        """The weights that minimise the NLL; the certificate is the infinity norm of its gradient.

        Raises ValueError where there are none: a class without samples, or weights that get every sample right.
        """
        best = fit_unpenalised(predictions, FULL, max_steps=max_steps)
        return cls(best.place[:-1].T.contiguous(), best.place[-1], fitted=best.record(predictions))
