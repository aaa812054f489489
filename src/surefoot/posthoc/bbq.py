"""Bayesian binning into quantiles."""

import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from surefoot.posthoc._one_versus_rest import floor, places, renormalised
from surefoot.posthoc.map import Fit, Map
from surefoot.predictions import Predictions

_PRIOR = 2.0  # N' of the paper: the prior's samples, shared by the bins of a binning
_TINY = torch.finfo(torch.float64).eps


@dataclass(frozen=True, eq=False)
class BBQ(Map):
    """Posterior mean of the rate at p_k over equal-frequency binnings, per class, renormalised. Naeini et al. 2015.

    Binnings of N^(1/3) / 10 to 10 N^(1/3) bins, each bin's prior Beta(2/B m, 2/B (1 - m)) with m its midpoint. Tied
    scores share a bin, so B counts the bins that are left. A class without samples is held near 0 by the prior alone.
    Our choice: nothing falls below 1 / ((N + 1) K). Cost: one sort and some hundred binnings per class.
    """

    edges: Tensor  # [K, M], each row ascending, padded with 2; the average of step functions is one
    rates: Tensor  # [K, M + 1]

    def _mapped(self, logits: Tensor) -> Tensor:
        edges, rates = self.edges.to(logits.device), self.rates.to(logits.device)
        probabilities = logits.softmax(dim=1)
        bins = places(edges, probabilities.T.contiguous())  # (a, b]
        calibrated = rates.gather(1, bins).T
        return renormalised(calibrated, probabilities, floor=floor(self.fitted.num_samples, self.fitted.num_classes))

    @classmethod
    @torch.no_grad()
    def fit(cls, predictions: Predictions) -> Self:
        """The averaged step function of each class, in closed form."""
        probabilities = predictions.exact.softmax(dim=1)
        steps = [
            _averaged(column, predictions.labels == label) for label, column in enumerate(probabilities.T.contiguous())
        ]
        longest = max(len(edges) for edges, _ in steps)
        edges = torch.stack([torch.cat([e, e.new_full((longest - len(e),), 2.0)]) for e, _ in steps])
        rates = torch.stack([torch.cat([r, r[-1:].expand(longest + 1 - len(r))]) for _, r in steps])
        return cls(edges, rates, fitted=Fit(predictions.num_samples, predictions.num_classes, True, 0.0, 0))


def _averaged(scores: Tensor, positive: Tensor) -> tuple[Tensor, Tensor]:
    """Edges [M] and rates [M + 1] of the average of all binnings, weighted by their posterior."""
    n = len(scores)
    ordered, order = scores.sort()
    hits = torch.cat([scores.new_zeros(1), positive[order].double().cumsum(dim=0)])
    last = torch.searchsorted(ordered, ordered, right=True)  # how many are at most the i-th score
    root = n ** (1 / 3)
    binnings = []
    for num_bins in range(max(1, math.floor(root / 10)), min(math.ceil(n / 5), math.ceil(10 * root)) + 1):
        ranks = torch.arange(1, num_bins, device=scores.device) * n // num_bins
        cuts = last[ranks - 1]
        cuts = cuts[cuts.diff(append=cuts.new_full((1,), n)) > 0]
        between = (ordered[cuts - 1] + ordered[cuts]) / 2  # an edge on a score would leave its side to rounding
        binnings.append((between, *_posterior(ordered, hits, cuts)))
    weights = torch.stack([evidence for _, _, evidence in binnings]).softmax(dim=0).tolist()
    kept = [(weight, *binning[:2]) for weight, binning in zip(weights, binnings, strict=True) if weight > _TINY]
    first = sum(weight * float(rates[0]) for weight, _, rates in kept)
    edges, order = torch.cat([edges for _, edges, _ in kept]).sort()
    climb = torch.cat([weight * rates.diff() for weight, _, rates in kept])[order].cumsum(dim=0)
    whole = edges.diff(append=edges.new_full((1,), 2.0)) > 0  # where all jumps at a shared edge are in
    return edges[whole], torch.cat([climb.new_zeros(1), climb[whole]]).add(first).clamp(0, 1)


def _posterior(ordered: Tensor, hits: Tensor, cuts: Tensor) -> tuple[Tensor, Tensor]:
    """Posterior mean rate of each bin, and the log evidence of the binning that cuts after so many scores."""
    n = len(ordered)
    bounds = torch.cat([cuts.new_zeros(1), cuts, cuts.new_full((1,), n)])
    total, positive = bounds.diff().double(), hits[bounds].diff()
    edges = torch.cat([ordered.new_zeros(1), ordered[cuts - 1], ordered.new_ones(1)])
    prior = _PRIOR / len(total)
    alpha = prior * ((edges[:-1] + edges[1:]) / 2).clamp(_TINY, 1 - _TINY)
    beta = prior - alpha
    evidence = (
        math.lgamma(prior)
        - torch.lgamma(total + prior)
        + torch.lgamma(positive + alpha)
        - torch.lgamma(alpha)
        + torch.lgamma(total - positive + beta)
        - torch.lgamma(beta)
    )
    return (positive + alpha) / (total + prior), evidence.sum()
