"""Predictions against what many people said of each sample, instead of one true label.

Votes are counts [N, K]; q is the share of each class among a sample's votes. Where q is all on one class these are the
accuracy, ECE and NLL of ordinary labels.
"""

import math

import torch
from torch import Tensor

from surefoot.metrics._ece import mean_absolute_gap
from surefoot.metrics._intervals._interval import Interval, IntervalOptions
from surefoot.metrics._intervals.binned import Noise, noisy_gaps_interval
from surefoot.metrics._intervals.means import mean_interval
from surefoot.metrics.bins import BinSums, equal_width
from surefoot.predictions import Predictions

_PSEUDO = 4  # samples of the largest variance there can be, added to each bin: few votes that agree prove little


def vote_accuracy(predictions: Predictions, counts: Tensor) -> Tensor:
    """Mean of q at the predicted class: how often somebody drawn among the voters agrees. Range [0, 1], 1 is best."""
    return _agreement(predictions, shares(predictions, counts)).mean()


def vote_ece(predictions: Predictions, counts: Tensor, *, num_bins: int = 15) -> Tensor:
    r"""Mean gap between confidence and agreement, sum_b n_b/N |mean q at the predicted class - conf_b|.

    The ECE with the expected hit under the votes in place of 0 or 1; not the mean of the ECE over drawn labels, which
    their noise makes larger. Equal-width bins (a, b]. Range [0, 1], 0 is calibrated.
    """
    return mean_absolute_gap(_sums(predictions, shares(predictions, counts), num_bins=num_bins))


def vote_nll(predictions: Predictions, counts: Tensor) -> Tensor:
    """Mean of -sum_k q_k log p_k, in nats. At least the mean entropy of q, where p = q; a proper score."""
    return vote_nll_values(predictions, shares(predictions, counts)).mean()


def vote_kl(predictions: Predictions, counts: Tensor) -> Tensor:
    """Mean of KL(q || p) = sum_k q_k log(q_k / p_k), in nats. At least 0, 0 where predictions are the votes' shares.

    Few votes make it larger: with m votes on a sample by about (classes with votes - 1) / 2 m.
    """
    return vote_kl_values(predictions, shares(predictions, counts)).mean()


def vote_nll_values(predictions: Predictions, q: Tensor) -> Tensor:
    """Cross-entropy of each sample's votes and probabilities; infinite where a class with votes was given 0."""
    given = predictions.given_probabilities
    if given is None:
        return -(q * predictions.exact.log_softmax(dim=1)).sum(dim=1)
    logs: Tensor = torch.special.xlogy(q, given.double())
    return -logs.sum(dim=1)  # [N]


def vote_kl_values(predictions: Predictions, q: Tensor) -> Tensor:
    """KL(q || p) of each sample."""
    entropies: Tensor = torch.special.entr(q)
    return vote_nll_values(predictions, q) - entropies.sum(dim=1)  # [N]


def vote_intervals(predictions: Predictions, counts: Tensor, options: IntervalOptions) -> dict[str, Interval]:
    """The four by name, each with an interval for the population that samples and their voters were drawn from."""
    q = shares(predictions, counts)
    return {
        "vote_accuracy": mean_interval(lambda given: _agreement(given, q), low=0.0, high=1.0)(predictions, options),
        "vote_ece": _ece_interval(predictions, q, options),
        "vote_nll": mean_interval(lambda given: vote_nll_values(given, q), low=0.0, high=math.inf)(
            predictions, options
        ),
        "vote_kl": mean_interval(lambda given: vote_kl_values(given, q), low=0.0, high=math.inf)(predictions, options),
    }


def shares(predictions: Predictions, counts: Tensor) -> Tensor:
    """The votes of each sample divided by their number, float64 [N, K], once they are checked."""
    if counts.shape != predictions.logits.shape:
        raise ValueError(
            f"`counts` must have the shape {list(predictions.logits.shape)} of the predictions, "
            f"got {list(counts.shape)}."
        )
    if counts.dtype == torch.bool or counts.is_complex():
        raise ValueError(f"`counts` must be numbers of votes, got {counts.dtype}.")
    votes = counts.to(predictions.logits.device, torch.float64)
    if not bool((votes >= 0).all() and votes.isfinite().all()):
        raise ValueError("`counts` must be finite and at least 0, got others among them.")
    total = votes.sum(dim=1, keepdim=True)
    if bool((total == 0).any()):
        row = int((total[:, 0] == 0).nonzero()[0, 0])
        raise ValueError(f"`counts` must have votes for every sample, got none in row {row}.")
    return votes / total


def _agreement(predictions: Predictions, q: Tensor) -> Tensor:
    return q.gather(1, predictions.predicted[:, None])[:, 0]  # [N]


def _sums(predictions: Predictions, q: Tensor, *, num_bins: int) -> BinSums:
    bins = equal_width(predictions.confidence, num_bins=num_bins)
    return BinSums.of(predictions.confidence, _agreement(predictions, q), bins, num_bins=num_bins)


def _ece_interval(predictions: Predictions, q: Tensor, options: IntervalOptions) -> Interval:
    bins = equal_width(predictions.confidence, num_bins=options.num_bins)
    sums = _sums(predictions, q, num_bins=options.num_bins)
    residual = predictions.confidence - _agreement(predictions, q)
    squares = torch.bincount(bins, weights=residual.square(), minlength=options.num_bins)
    seen = (squares - sums.count * sums.mean_gap.square()).clamp(min=0)  # [M], n times the variance
    share = (sums.hit + 2) / (sums.count + 4)
    variance = (seen + _PSEUDO * share * (1 - share)) / (sums.count + _PSEUDO)
    error = (sums.count * variance).sqrt() / predictions.num_samples
    noise = Noise(options.normals(options.num_replicates, options.num_bins, like=error), error, error)

    def functional(gap: Tensor) -> Tensor:
        return gap.abs().sum(dim=-1)

    low, high = noisy_gaps_interval(functional, sums.gap, noise, options=options)
    return options.interval(functional(sums.gap), low, high, "inverted normal bin sums")
