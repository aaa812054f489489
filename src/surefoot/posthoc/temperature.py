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
        inside a bracket that shrinks, so that T stays positive. Raises ValueError where the optimum is T = 0 (no
        sample wrong) or T = infinity (worse than chance).
        """
        if bool((predictions.margin >= 0).all()):
            raise ValueError(
                "`predictions` have no best temperature: no sample is wrong, so the NLL falls on to T = 0."
            )
        if _derivatives(predictions, 0.0)[0] >= 0:
            raise ValueError(
                "`predictions` have no best temperature: worse than chance, the NLL falls on to T = infinity."
            )
        low, high = -math.inf, math.inf  # of place = log b
        place = 0.0
        for _ in range(max_steps):
            scale = math.exp(place)
            slope, curvature = _derivatives(predictions, scale)
            low, high = (place, high) if slope < 0 else (low, place)
            bend = slope + curvature * scale  # in log b: first derivative slope * b, second bend * b
            step = -slope / bend if bend > 0 else math.copysign(math.inf, -slope)
            if abs(step) < 1e-10:
                return cls(math.exp(-place))
            following = place + min(max(step, -2.0), 2.0)  # far from the optimum the curvature misleads
            place = following if low < following < high else (low + high) / 2
        raise ValueError(f"`predictions` gave no temperature within {max_steps} steps, though one exists.")


def _derivatives(predictions: Predictions, scale: float) -> tuple[float, float]:
    logits = predictions.exact
    weights = (scale * logits).softmax(dim=1)
    mean = (weights * logits).sum(dim=1)
    true = logits.gather(1, predictions.labels.long()[:, None])[:, 0]
    variance = (weights * (logits - mean[:, None]).square()).sum(dim=1)
    return float((mean - true).mean()), float(variance.mean())
