"""What structured vector and matrix scaling share: temperature first, then an affine map held near the identity."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from surefoot.posthoc._affine import Family, fit_affine
from surefoot.posthoc.map import Fit
from surefoot.posthoc.temperature import best_scale
from surefoot.predictions import Predictions


def softened(logits: Tensor, *, temperature: float, num_samples: int) -> Tensor:
    """Logarithm of softmax(z / T) mixed with the uniform distribution, which has weight 1 / (num_samples + 1).

    So certainty on the fitting samples cannot give infinite logits: nothing falls below 1 / ((num_samples + 1) K).
    """
    logs = (logits / temperature).log_softmax(dim=1) + math.log(num_samples / (num_samples + 1))
    uniform = -math.log((num_samples + 1) * logits.shape[1])
    return logs.logaddexp(torch.full_like(logs, uniform))


def fit_structured(
    predictions: Predictions, family: Family, *, ridge: Tensor, max_steps: int
) -> tuple[float, Tensor, Fit]:
    """T of least NLL, then weights of least NLL + sum ridge * (weights - identity)^2 on the softened log-probabilities.

    Where no T is best, log T stops at -16 (no sample is wrong) or 16 (worse than chance), as in the reference.
    """
    scale = best_scale(predictions, max_steps=max_steps)
    temperature = math.exp(-scale.place)
    logs = softened(predictions.exact, temperature=temperature, num_samples=predictions.num_samples)
    identity = family.scaled_identity(torch.ones_like(logs[0]))
    soft = Predictions(logs, predictions.labels)
    best = fit_affine(soft, family, start=1.0, centre=identity, ridge=ridge, max_steps=max_steps)
    fitted = best.record(predictions)
    settled = scale.converged or scale.falls_to != ""
    return temperature, best.place, replace(fitted, converged=fitted.converged and settled)
