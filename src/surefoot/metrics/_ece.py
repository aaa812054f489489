"""Binned calibration errors of the top label, in equal-width bins of the confidence."""

from collections.abc import Callable

from torch import Tensor

from surefoot.metrics.bins import BinSums, top_label_sums
from surefoot.predictions import Predictions


def ece(predictions: Predictions, *, num_bins: int = 15) -> Tensor:
    r"""Expected calibration error: mean gap between confidence and accuracy, sum_b n_b/N |acc_b - conf_b|.

    Equal-width bins (a, b], the first closed at 0; empty bins add nothing. Range [0, 1], 0 is calibrated.
    Guo et al. 2017.

    >>> import torch
    >>> p = Predictions(torch.tensor([[0.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 0]))
    >>> ece(p).item()  # half sure, always right
    0.5
    """
    return mean_absolute_gap(top_label_sums(predictions, num_bins=num_bins))


def mce(predictions: Predictions, *, num_bins: int = 15) -> Tensor:
    r"""Maximum calibration error: the largest |acc_b - conf_b| of any bin that is not empty.

    Range [0, 1], 0 is calibrated. A bin of one sample counts like any other: read it with its interval.
    """
    return largest_gap(top_label_sums(predictions, num_bins=num_bins))


def rms_ce(predictions: Predictions, *, num_bins: int = 15) -> Tensor:
    r"""Root mean squared calibration error, sqrt(sum_b n_b/N (acc_b - conf_b)^2). Range [0, 1], at least the ECE."""
    return root_mean_square_gap(top_label_sums(predictions, num_bins=num_bins))


def debiased_rms_ce(predictions: Predictions, *, num_bins: int = 15) -> Tensor:
    r"""Root of sum_b n_b/N [(acc_b - conf_b)^2 - acc_b (1 - acc_b) / (n_b - 1)], 0 where that is negative.

    The squared gap of a bin is too large by the variance of its accuracy, which the second term takes away again. A bin
    of one sample has no such estimate and counts 0. Range [0, 1], 0 is calibrated. Kumar et al. 2019.
    """
    return debiased_root_mean_square_gap(top_label_sums(predictions, num_bins=num_bins))


def oe(predictions: Predictions, *, num_bins: int = 15) -> Tensor:
    r"""Overconfidence error, sum_b n_b/N conf_b max(conf_b - acc_b, 0). Range [0, 1]. Thulasidasan et al. 2019."""
    return over_confidence(top_label_sums(predictions, num_bins=num_bins))


def ue(predictions: Predictions, *, num_bins: int = 15) -> Tensor:
    r"""Underconfidence error, sum_b n_b/N conf_b max(acc_b - conf_b, 0). Range [0, 1].

    The overconfidence error with the sign of the gap turned; keeping the weight conf_b is our choice.
    """
    return under_confidence(top_label_sums(predictions, num_bins=num_bins))


def mean_absolute_gap(sums: BinSums) -> Tensor:
    """The ECE of bin sums, per row of bins."""
    return sums.gap.abs().sum(dim=-1)


def mean_square_gap(sums: BinSums) -> Tensor:
    """The squared RMSCE of bin sums, per row of bins."""
    return (sums.gap * sums.mean_gap).sum(dim=-1)


def largest_gap(sums: BinSums) -> Tensor:
    """The MCE of bin sums."""
    return sums.mean_gap.abs().amax(dim=-1)


def root_mean_square_gap(sums: BinSums) -> Tensor:
    """The RMSCE of bin sums."""
    return mean_square_gap(sums).sqrt()


def debiased_root_mean_square_gap(sums: BinSums) -> Tensor:
    """The debiased RMSCE of bin sums."""
    accuracy = sums.hit / sums.count.clamp(min=1)
    excess = sums.mean_gap.square() - accuracy * (1 - accuracy) / (sums.count - 1).clamp(min=1)
    return (sums.weight * excess * (sums.count > 1)).sum(dim=-1).clamp(min=0).sqrt()


def over_confidence(sums: BinSums) -> Tensor:
    """The OE of bin sums."""
    return (sums.gap.clamp(min=0) * sums.score / sums.count.clamp(min=1)).sum(dim=-1)


def under_confidence(sums: BinSums) -> Tensor:
    """The UE of bin sums."""
    return ((-sums.gap).clamp(min=0) * sums.score / sums.count.clamp(min=1)).sum(dim=-1)


FROM_SUMS: dict[str, Callable[[BinSums], Tensor]] = {
    "ece": mean_absolute_gap,
    "mce": largest_gap,
    "rms_ce": root_mean_square_gap,
    "debiased_rms_ce": debiased_root_mean_square_gap,
    "oe": over_confidence,
    "ue": under_confidence,
}
