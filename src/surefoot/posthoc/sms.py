"""Structured matrix scaling."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from surefoot.posthoc._affine import FULL
from surefoot.posthoc._structured import fit_structured, softened
from surefoot.posthoc.map import Map
from surefoot.predictions import Predictions


@dataclass(frozen=True, eq=False)
class SMS(Map):
    """Temperature, then weight log p + bias with weight held near the identity and bias near 0. Berta et al. 2025.

    After T, probabilities are mixed with the uniform distribution of weight 1 / (N + 1). Cost: that of matrix scaling,
    mostly less.
    """

    temperature: float
    weight: Tensor  # [K, K]
    bias: Tensor  # [K]

    def _mapped(self, logits: Tensor) -> Tensor:
        logs = softened(logits, temperature=self.temperature, num_samples=self.fitted.num_samples)
        return logs @ self.weight.T.to(logits.device) + self.bias.to(logits.device)

    @classmethod
    @torch.no_grad()
    def fit(cls, predictions: Predictions, *, max_steps: int = 100) -> Self:
        """T of least NLL, then the v, M, b of least NLL + K/N |v|^2 + K/N |b|^2 + K(K-1)/N |M|^2.

        Here weight = 1 + diag(v) + M with M zero on the diagonal. The certificate is the infinity norm of the gradient
        of that. Where no T is best, log T stops at -16 or 16.
        """
        n, k = predictions.num_samples, predictions.num_classes
        ridge = torch.full((k + 1, k), k * (k - 1) / n, dtype=torch.float64, device=predictions.logits.device)
        ridge[:-1].fill_diagonal_(k / n)
        ridge[-1] = k / n
        temperature, weights, fitted = fit_structured(predictions, FULL, ridge=ridge, max_steps=max_steps)
        return cls(temperature, weights[:-1].T.contiguous(), weights[-1], fitted=fitted)
