"""Accuracy, negative log-likelihood and mean confidence."""

from torch import Tensor

from surefoot.predictions import Predictions


def accuracy(predictions: Predictions) -> Tensor:
    """Share of samples whose predicted class is the true one. Range [0, 1], 1 is best."""
    return predictions.correct.double().mean()


def mean_confidence(predictions: Predictions) -> Tensor:
    """Mean of the largest probability. Range [1/K, 1]; above the accuracy means overconfident on the whole."""
    return predictions.confidence.mean()


def nll(predictions: Predictions) -> Tensor:
    """Mean of -log p_y, the cross-entropy in nats. At least 0, 0 is best; a proper score."""
    exact = predictions.exact
    true = exact.gather(1, predictions.labels.long()[:, None])[:, 0]
    return (exact.logsumexp(dim=1) - true).mean()
