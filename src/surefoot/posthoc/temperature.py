"""Temperature scaling."""

import math
from dataclasses import dataclass
from typing import Literal, Self

import torch
from torch import Tensor

from surefoot.posthoc.map import Fit, Map
from surefoot.predictions import Predictions

_WARM_ROWS = 5000  # the optimum on this many samples is a start from which few steps over all of them are left
_TOLERANCE = 1e-9  # of the last Newton step in log T
_FARTHEST = 16.0  # |log T| where the NLL falls on and on
_NONE = {
    "0": "no sample is wrong, so the NLL falls on to T = 0, or stays where all logits are equal",
    "infinity": "worse than chance, the NLL falls on to T = infinity",
}


@dataclass(frozen=True, eq=False)
class Temperature(Map):
    """The map z -> z / T with the T of least NLL; T > 1 lowers confidence, the predicted class stays. Guo et al. 2017.

    T > 0, 1 leaves the logits alone. Cost: about four passes over the logits.

    >>> sure = Predictions(torch.tensor([[2.0, 0.0]] * 4), torch.tensor([0, 0, 0, 1]))
    >>> Temperature.fit(sure)(sure.logits).softmax(dim=1)[0]  # right three times in four
    tensor([0.7500, 0.2500])
    """

    temperature: float

    def _mapped(self, logits: Tensor) -> Tensor:
        return logits / self.temperature

    @classmethod
    @torch.no_grad()
    def fit(cls, predictions: Predictions, *, max_steps: int = 100) -> Self:
        """The T that minimises the NLL; the certificate is |d NLL / d log T|.

        Raises ValueError where the optimum is T = 0 (no sample wrong) or T = infinity (worse than chance).
        """
        best = best_scale(predictions, max_steps=max_steps)
        if best.falls_to:
            raise ValueError(f"`predictions` have no best temperature: {_NONE[best.falls_to]}.")
        fitted = Fit(predictions.num_samples, predictions.num_classes, best.converged, best.certificate, best.num_steps)
        return cls(math.exp(-best.place), fitted=fitted)


@dataclass(frozen=True)
class Scale:
    """The b = 1/T of least NLL, or the side to which the NLL falls on, with T stopped at exp(-16) or exp(16)."""

    place: float  # log b
    certificate: float  # |d NLL / d log b|
    num_steps: int
    converged: bool
    falls_to: Literal["", "0", "infinity"] = ""  # T


def best_scale(predictions: Predictions, *, max_steps: int = 100) -> Scale:
    """The NLL is convex in b, with slope mean(E_p[z] - z_y) and curvature mean(Var_p[z]).

    Newton on log b, inside a bracket that shrinks, so that T stays positive; from the optimum on some of the samples
    where there are many.
    """
    stride = predictions.num_samples // _WARM_ROWS
    warm = _newton(predictions[::stride], start=0.0, max_steps=max_steps) if stride >= 4 else None
    start = warm.place if warm and not warm.falls_to else 0.0
    return _newton(predictions, start=start, max_steps=max_steps)


def _newton(predictions: Predictions, *, start: float, max_steps: int) -> Scale:
    low, high = -math.inf, math.inf
    place = start
    for num_steps in range(1, max_steps + 1):
        scale = math.exp(place)
        slope, curvature, any_wrong = _derivatives(predictions, scale)
        if not any_wrong:
            return Scale(_FARTHEST, abs(slope * scale), num_steps, converged=False, falls_to="0")
        if place < -_FARTHEST and low == -math.inf and _derivatives(predictions, 0.0)[0] >= 0:
            return Scale(-_FARTHEST, abs(slope * scale), num_steps, converged=False, falls_to="infinity")
        low, high = (place, high) if slope < 0 else (low, place)
        bend = slope + curvature * scale  # in log b: first derivative slope * b, second bend * b
        step = -slope / bend if bend > 0 else math.copysign(math.inf, -slope)
        converged = abs(step) < _TOLERANCE
        if converged or num_steps == max_steps:
            return Scale(place, abs(slope * scale), num_steps, converged)
        following = place + min(max(step, -2.0), 2.0)  # far from the optimum the curvature misleads
        place = following if low < following < high else (low + high) / 2
    raise ValueError(f"`max_steps` must be at least 1, got {max_steps}.")


def _derivatives(predictions: Predictions, scale: float) -> tuple[float, float, bool]:
    """Slope and curvature of the NLL in b, with one exp per logit, and whether any sample is wrong."""
    slope = curvature = torch.zeros((), dtype=torch.float64, device=predictions.logits.device)
    lowest = slope
    for block in predictions.blocks():
        below = block.logits.detach().to(torch.float64, copy=True)
        below -= below.amax(dim=1, keepdim=True)
        true = below.gather(1, block.labels.long()[:, None])[:, 0]
        weights = (below * scale).exp_()
        total = weights.sum(dim=1)
        mean = weights.mul_(below).sum(dim=1) / total
        square = weights.mul_(below).sum(dim=1) / total
        slope = slope + (mean - true).sum()
        curvature = curvature + (square - mean.square()).sum()
        lowest = torch.minimum(lowest, true.min())
    return float(slope) / predictions.num_samples, float(curvature) / predictions.num_samples, bool(lowest < 0)
