"""Means over samples: accuracy, confidence, negative log-likelihood, Brier score, entropy.

Each has its value per sample beside it, from which the interval follows.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from surefoot.predictions import Predictions


def accuracy(predictions: Predictions) -> Tensor:
    """Share of samples whose predicted class is the true one. Range [0, 1], 1 is best."""
    return predictions.correct.double().mean()


def mean_confidence(predictions: Predictions) -> Tensor:
    """Mean of the largest probability. Range [1/K, 1]; above the accuracy means overconfident on the whole."""
    return predictions.confidence.mean()


def nll(predictions: Predictions) -> Tensor:
    """Mean of -log p_y, the cross-entropy in nats. At least 0, 0 is best; a proper score.

    Infinite where a sample's true class was given the probability 0.
    """
    return nll_values(predictions).mean()


def brier(predictions: Predictions) -> Tensor:
    """Mean of sum_k (p_k - 1[y = k])^2. Range [0, 2], 0 is best; a proper score.

    Summed over classes, as Brier did. Some divide by K, and for two classes some count one of them.
    """
    return brier_values(predictions).mean()


def entropy(predictions: Predictions) -> Tensor:
    """Mean of -sum_k p_k log p_k, in nats. Range [0, log K]; 0 is certainty, right or wrong."""
    return entropy_values(predictions).mean()


def nll_values(predictions: Predictions) -> Tensor:
    """-log p_y of each sample."""

    def values(block: Predictions) -> Tensor:
        label = block.labels.long()[:, None]
        if block.given_probabilities is not None:
            return -block.given_probabilities.gather(1, label)[:, 0].double().log()
        exact = block.exact
        return exact.logsumexp(dim=1) - exact.gather(1, label)[:, 0]

    return _by_block(predictions, values)


def brier_values(predictions: Predictions) -> Tensor:
    """Squared distance of each sample's probabilities from the truth."""

    def values(block: Predictions) -> Tensor:
        probabilities = block.probabilities
        label = block.labels.long()[:, None]
        truth = torch.zeros_like(probabilities).scatter_(1, label, 1.0)
        return (probabilities - truth).square_().sum(dim=1)

    return _by_block(predictions, values)


def entropy_values(predictions: Predictions) -> Tensor:
    """Entropy of each sample's probabilities."""
    return _by_block(predictions, lambda block: torch.special.entr(block.probabilities).sum(dim=1))


def _by_block(predictions: Predictions, values: Callable[[Predictions], Tensor]) -> Tensor:
    return torch.cat([values(block) for block in predictions.blocks()])  # [N]
