"""Isotonic regression."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from surefoot.posthoc._one_versus_rest import floor, places, renormalised
from surefoot.posthoc.map import Fit, Map
from surefoot.predictions import Predictions


@dataclass(frozen=True, eq=False)
class Isotonic(Map):
    """The non-decreasing function of p_k of least squares for each class, renormalised. Zadrozny & Elkan 2002.

    Linear between the knots, constant beyond them. Our choice: a class without samples keeps p_k, and nothing falls
    below 1 / ((N + 1) K). Cost: one sort per class.
    """

    knots: Tensor  # [K, M], each row ascending, the last knot repeated
    heights: Tensor  # [K, M]

    def _mapped(self, logits: Tensor) -> Tensor:
        knots, heights = self.knots.to(logits.device), self.heights.to(logits.device)
        probabilities = logits.softmax(dim=1)
        place = probabilities.T.contiguous().clamp(min=knots[:, :1], max=knots[:, -1:])  # [K, N]
        right = places(knots, place).clamp(min=1)
        x0, x1 = knots.gather(1, right - 1), knots.gather(1, right)
        y0, y1 = heights.gather(1, right - 1), heights.gather(1, right)
        share = (place - x0) / (x1 - x0).clamp(min=torch.finfo(x0.dtype).tiny)
        calibrated = (y0 + share * (y1 - y0)).T
        return renormalised(calibrated, probabilities, floor=floor(self.fitted.num_samples, self.fitted.num_classes))

    @classmethod
    @torch.no_grad()
    def fit(cls, predictions: Predictions) -> Self:
        """The knots from scikit-learn's pool-adjacent-violators, which is exact."""
        from sklearn.isotonic import IsotonicRegression

        device = predictions.logits.device
        probabilities = predictions.exact.softmax(dim=1).cpu().numpy()
        labels = predictions.labels.cpu().numpy()
        curves = []
        for label in range(predictions.num_classes):
            curve = torch.tensor([[0.0, 1.0], [0.0, 1.0]], dtype=torch.float64)
            if (labels == label).any():
                regression = IsotonicRegression(out_of_bounds="clip").fit(probabilities[:, label], labels == label)
                x, y = torch.tensor(regression.X_thresholds_), torch.tensor(regression.y_thresholds_)
                curve = torch.stack([x, y]).double()
            curves.append(curve)
        longest = max(2, *(curve.shape[1] for curve in curves))
        padded = [torch.cat([c, c[:, -1:].expand(-1, longest - c.shape[1])], dim=1) for c in curves]
        knots, heights = torch.stack(padded, dim=1).to(device)
        fitted = Fit(predictions.num_samples, predictions.num_classes, True, 0.0, 0)
        return cls(knots.contiguous(), heights.contiguous(), fitted=fitted)
