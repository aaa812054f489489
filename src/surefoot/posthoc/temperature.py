"""Temperature scaling."""

import math
from dataclasses import dataclass

from torch import Tensor

from surefoot.predictions import Predictions


@dataclass(frozen=True)
class Temperature:
    """The map z -> z / T that leaves the predicted class alone; T > 1 lowers confidence. Guo et al. 2017."""

    temperature: float

    def __call__(self, logits: Tensor) -> Tensor:
        return logits / self.temperature

    @classmethod
    def fit(cls, predictions: Predictions, *, max_steps: int = 100) -> "Temperature":
        """The T that minimises the NLL on the given predictions, to rounding.

        The NLL is convex in b = 1/T, with slope mean(E_p[z] - z_y) and curvature mean(Var_p[z]): Newton on log b,
        inside a bracket that shrinks, so that T stays positive. Raises ValueError where the optimum is T = 0 (every
        sample right) or T = infinity (worse than chance).
        """
        low, high = -20.0, 20.0  # log b
        place = 0.0
        for _ in range(max_steps):
            scale = math.exp(place)
            slope, curvature = _derivatives(predictions, scale)
            low, high = (place, high) if slope < 0 else (low, place)
            # in log b: first derivative slope * b, second slope * b + curvature * b^2
            bend = slope + curvature * scale
            newton = place - slope / bend if bend > 0 else math.inf
            following = newton if low < newton < high else (low + high) / 2
            if abs(following - place) < 1e-12:
                break
            place = following
        if abs(place) > 19.9:
            side = "0: every sample is classified right" if place > 0 else "infinity: the logits are worse than chance"
            raise ValueError(f"`predictions` have no best temperature; the NLL falls on towards T = {side}.")
        return cls(math.exp(-place))


def _derivatives(predictions: Predictions, scale: float) -> tuple[float, float]:
    logits = predictions.exact
    weights = (scale * logits).softmax(dim=1)
    mean = (weights * logits).sum(dim=1)
    true = logits.gather(1, predictions.labels.long()[:, None])[:, 0]
    variance = (weights * (logits - mean[:, None]).square()).sum(dim=1)
    return float((mean - true).mean()), float(variance.mean())
