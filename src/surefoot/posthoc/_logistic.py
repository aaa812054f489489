"""A logistic regression for each class against the rest: the solver behind Platt and beta scaling."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import softplus

from surefoot.posthoc._newton import Local, Solution, dense_step, minimise
from surefoot.posthoc._one_versus_rest import scores
from surefoot.posthoc.map import Fit
from surefoot.predictions import Predictions


def fit_each_class(
    predictions: Predictions, features: Callable[[Tensor], Tensor], *, lower: list[float], max_steps: int
) -> tuple[Tensor, Fit]:
    """Coefficients [D, K] of least cross-entropy of sigmoid(features(s_k) @ coefficients) with "the label is k".

    Features map scores [N] to [N, D]; `lower` bounds the coefficients. The record takes the worst of the classes.
    """
    bound = torch.tensor(lower, dtype=torch.float64, device=predictions.logits.device)
    solutions = [
        _regression(features(column), predictions.labels == label, lower=bound, max_steps=max_steps)
        for label, column in enumerate(scores(predictions.exact).T)
    ]
    places = torch.stack([best.place for best in solutions], dim=1)
    worst = Solution(places, max(best.certificate for best in solutions), max(best.num_steps for best in solutions))
    return places, worst.record(predictions)


def _regression(features: Tensor, positive: Tensor, *, lower: Tensor, max_steps: int) -> Solution:
    """Platt's targets (N_+ + 1) / (N_+ + 2) and 1 / (N_- + 2) give an optimum even where classes are separated."""
    num_positive = float(positive.sum())
    num_negative = len(positive) - num_positive
    high, low = (num_positive + 1) / (num_positive + 2), 1 / (num_negative + 2)
    targets = low + (high - low) * positive.double()

    def objective(coefficients: Tensor) -> Local:
        outputs = features @ coefficients
        probabilities = outputs.sigmoid()
        gradient = features.T @ (probabilities - targets) / len(features)
        spread = (probabilities * (1 - probabilities))[:, None]
        value = float((softplus(outputs) - targets * outputs).mean())
        return Local(value, gradient, dense_step(gradient, features.T @ (spread * features) / len(features)))

    return minimise(objective, torch.zeros_like(lower), lower=lower, max_steps=max_steps)
