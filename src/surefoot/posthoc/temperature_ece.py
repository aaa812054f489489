"""Temperature scaling by ECE."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from surefoot.metrics.bins import equal_width
from surefoot.posthoc.map import Fit, Map
from surefoot.predictions import Predictions

_TENTHS = range(1, 101)  # of T
_NUM_BINS = 15


@dataclass(frozen=True, eq=False)
class TemperatureECE(Map):
    """The map z -> z / T with the T in 0.1, 0.2, ..., 10.0 of least ECE (15 bins). Mukhoti et al. 2020, their code.

    What papers on focal losses mean by a temperature. The predicted class stays. Cost: one hundred passes.
    """

    temperature: float

    def _mapped(self, logits: Tensor) -> Tensor:
        return logits / self.temperature

    @classmethod
    @torch.no_grad()
    def fit(cls, predictions: Predictions) -> Self:
        """The T of least ECE, the one nearest 1 on ties; converged unless it is an end of the grid, certificate 0."""
        errors = _errors(predictions)
        best = min(_TENTHS, key=lambda tenths: (errors[tenths - 1], abs(tenths - 10)))
        inside = _TENTHS[0] < best < _TENTHS[-1]
        fitted = Fit(predictions.num_samples, predictions.num_classes, inside, 0.0, len(_TENTHS))
        return cls(best / 10, fitted=fitted)


def _errors(predictions: Predictions) -> list[float]:
    """The ECE at every T, with the maximum and what is right found only once."""
    gaps = torch.zeros(len(_TENTHS), _NUM_BINS, dtype=torch.float64, device=predictions.logits.device)
    for block in predictions.blocks():
        below = block.exact - block.exact.amax(dim=1, keepdim=True)
        right = block.correct.double()
        weights = torch.empty_like(below)
        for gap, tenths in zip(gaps, _TENTHS, strict=True):
            confidence = torch.mul(below, 10 / tenths, out=weights).exp_().sum(dim=1).reciprocal_()
            gap.index_add_(0, equal_width(confidence, num_bins=_NUM_BINS), confidence - right)
    errors: list[float] = (gaps.abs().sum(dim=1) / predictions.num_samples).tolist()
    return errors
