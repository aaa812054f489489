"""Structured vector scaling."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from surefoot.posthoc._affine import DIAGONAL
from surefoot.posthoc._structured import fit_structured, softened
from surefoot.posthoc.map import Map
from surefoot.predictions import Predictions


@dataclass(frozen=True, eq=False)
class SVS(Map):
    """Temperature, then weight * log p + bias with weight held near 1 and bias near 0. Berta et al. 2025.

    After T, probabilities are mixed with the uniform distribution of weight 1 / (N + 1). Cost: that of vector scaling.
    """

    temperature: float
    weight: Tensor  # [K]
    bias: Tensor  # [K]

    def _mapped(self, logits: Tensor) -> Tensor:
        logs = softened(logits, temperature=self.temperature, num_samples=self.fitted.num_samples)
        return logs * self.weight.to(logits.device) + self.bias.to(logits.device)

    @classmethod
    @torch.no_grad()
    def fit(cls, predictions: Predictions, *, max_steps: int = 100) -> Self:
        """T of least NLL, then the v, b of least NLL + K/N |v|^2 + K/N |b|^2 with weight = 1 + v.

        The certificate is the infinity norm of the gradient of that. Where no T is best, log T stops at -16 or 16.
        """
        n, k = predictions.num_samples, predictions.num_classes
        ridge = torch.tensor(k / n, dtype=torch.float64, device=predictions.logits.device)
        temperature, weights, fitted = fit_structured(predictions, DIAGONAL, ridge=ridge, max_steps=max_steps)
        return cls(temperature, *weights, fitted=fitted)
