"""The tail of the margins: what is missing from certainty, sample by sample, however little it is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.metrics.bins import equal_width
from surefoot.predictions import Predictions


def log_missing(predictions: Predictions, classes: Tensor | None = None) -> Tensor:
    """Log of 1 - p of the true class (or of `classes` [N]), [N]: by the other classes' logits, never by subtraction."""
    chosen = (predictions.labels if classes is None else classes).long()[:, None]
    logits = predictions.exact
    others = logits.scatter(1, chosen, -torch.inf).logsumexp(dim=1)
    return others - logits.logsumexp(dim=1)


def predicted_margin(predictions: Predictions) -> Tensor:
    """How far the largest logit is above the second, [N]; at least 0."""
    top = predictions.exact.topk(2, dim=1).values
    return top[:, 0] - top[:, 1]


def exact_ece(predictions: Predictions, *, num_bins: int = 15) -> float:
    """The ECE, right to many digits also where all samples are almost certain: 1 - confidence is never subtracted."""
    missing = log_missing(predictions, predictions.predicted).exp()
    gap = torch.where(predictions.correct, missing, missing - 1)  # hit - confidence
    sums = torch.bincount(equal_width(predictions.confidence, num_bins=num_bins), weights=gap, minlength=num_bins)
    return float(sums.abs().sum() / predictions.num_samples)


def log_mean_exp(values: Tensor) -> Tensor:
    """Log of the mean of exp(values)."""
    return values.logsumexp(dim=0) - math.log(len(values))


@dataclass(frozen=True, eq=False)
class Tail:
    """Where the exponential margin moment Q = mean exp(-m) comes from."""

    log_moment: float  # log Q
    smallest: float  # gamma, the smallest true margin
    shares: dict[float, float]  # of the worst samples, the share of Q that is theirs
    worst: Tensor  # indices of all samples, the smallest margin first

    @property
    def interpolating(self) -> bool:
        """Whether every sample is classified right, with a positive margin; else the classes overlap."""
        return self.smallest > 0


def tail(margin: Tensor, *, worst: Sequence[float] = (0.01, 0.05, 0.1)) -> Tail:
    """The tail of N margins; `worst` are shares of the samples.

    >>> margins = tail(torch.tensor([5.0, -1.0, 3.0]), worst=(0.3,))
    >>> margins.interpolating, margins.worst.tolist(), round(margins.shares[0.3], 3)
    (False, [1, 2, 0], 0.98)
    """
    if not all(0 < share <= 1 for share in worst):
        raise ValueError(f"`worst` must lie above 0 and at most at 1, got {list(worst)}.")
    if not len(margin):
        raise ValueError("`margin` must hold at least 1 sample, got 0.")
    values, order = margin.double().sort()
    total = (-values).logsumexp(dim=0)
    sums = (-values).logcumsumexp(dim=0)
    shares = {
        share: float((sums[max(math.ceil(share * len(values) - 1e-9), 1) - 1] - total).exp().clamp(max=1))
        for share in worst
    }
    return Tail(float(log_mean_exp(-values)), float(values[0]), shares, order)


def ece_by_decile(predictions: Predictions, margin: Tensor, *, num_parts: int = 10) -> list[tuple[float, float]]:
    """Mean margin and |mean confidence - accuracy| of each tenth of the samples in the order of `margin` [N]."""
    order = margin.argsort()
    gap = predictions.confidence - predictions.correct.double()
    parts = zip(order.tensor_split(num_parts), strict=True)
    return [(float(margin[part].double().mean()), float(gap[part].mean().abs())) for (part,) in parts if len(part)]
