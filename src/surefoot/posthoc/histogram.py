"""Histogram binning."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from surefoot.metrics.bins import check_num_bins, equal_width
from surefoot.posthoc._one_versus_rest import floor, renormalised
from surefoot.posthoc.map import Fit, Map
from surefoot.predictions import Predictions


@dataclass(frozen=True, eq=False)
class Histogram(Map):
    """How often the class is true among fitting samples of the same bin of p_k, renormalised. Zadrozny & Elkan 2001.

    Equal-width bins (a, b], the first closed at 0. Our choice: empty bins keep their midpoint, classes without samples
    keep p_k, and nothing falls below 1 / ((N + 1) K). Cost: one pass.
    """

    rates: Tensor  # [K, num_bins]
    seen: Tensor  # [K], whether the class has samples

    def _mapped(self, logits: Tensor) -> Tensor:
        rates, seen = self.rates.to(logits.device), self.seen.to(logits.device)
        probabilities = logits.softmax(dim=1)
        rate_of_bin = rates.T.gather(0, equal_width(probabilities, num_bins=rates.shape[1]))
        calibrated = torch.where(seen, rate_of_bin, probabilities)
        return renormalised(calibrated, probabilities, floor=floor(self.fitted.num_samples, self.fitted.num_classes))

    @classmethod
    @torch.no_grad()
    def fit(cls, predictions: Predictions, *, num_bins: int = 15) -> Self:
        """The rates of each bin, in closed form."""
        check_num_bins(num_bins)
        k, device = predictions.num_classes, predictions.logits.device
        total = torch.zeros(num_bins, k, dtype=torch.float64, device=device)
        positive = torch.zeros_like(total)
        for block in predictions.blocks():
            bins = equal_width(block.exact.softmax(dim=1), num_bins=num_bins)
            total.scatter_add_(0, bins, torch.ones_like(bins, dtype=torch.float64))
            true = block.labels.long()
            positive.index_put_((bins.gather(1, true[:, None])[:, 0], true), positive.new_ones(()), accumulate=True)
        middle = (torch.arange(num_bins, dtype=torch.float64, device=device)[:, None] + 0.5) / num_bins
        rates = torch.where(total > 0, positive / total.clamp(min=1), middle)
        fitted = Fit(predictions.num_samples, k, True, 0.0, 0)
        return cls(rates.T.contiguous(), positive.sum(dim=0) > 0, fitted=fitted)
