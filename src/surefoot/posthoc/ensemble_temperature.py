"""Ensemble temperature scaling."""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from surefoot.posthoc._newton import Local, dense_step, minimise
from surefoot.posthoc.map import Map
from surefoot.posthoc.temperature import Temperature
from surefoot.predictions import Predictions


@dataclass(frozen=True, eq=False)
class EnsembleTemperature(Map):
    """The mixture w_1 softmax(z / T) + w_2 softmax(z) + w_3 / K, as log-probabilities. Zhang et al. 2020 (ETS).

    T has the least NLL alone, then w has it on the simplex. The predicted class stays. Cost: that of T and one pass.
    """

    temperature: float
    weights: Tensor  # [3], non-negative, sum 1

    def _mapped(self, logits: Tensor) -> Tensor:
        return (_components(logits, self.temperature) + self.weights.to(logits.device).log()).logsumexp(dim=2)

    @classmethod
    @torch.no_grad()
    def fit(cls, predictions: Predictions, *, max_steps: int = 100) -> Self:
        """T and w as above; the certificate is the larger of T's own and max_j mean(p_j / p_mixed) - 1.

        The latter, p being what a component gives the true class, bounds how far the NLL is from that of the best w.
        Raises ValueError where no T is best.
        """
        cooled = Temperature.fit(predictions, max_steps=max_steps)
        parts = [
            _components(part.exact, cooled.temperature).gather(1, part.labels.long()[:, None, None].expand(-1, 1, 3))
            for part in predictions.blocks()
        ]
        logs = torch.cat(parts)[:, 0]  # [N, 3], of the true class
        relative = (logs - logs.amax(dim=1, keepdim=True)).exp()  # a factor per sample leaves the best w alone

        def objective(weights: Tensor) -> Local:
            # -mean log(p w) + sum w over w >= 0 has its minimum on the simplex: the simplex needs no constraint
            mixed = relative @ weights
            ratio = relative / mixed[:, None]
            gradient = 1 - ratio.mean(dim=0)
            value = float(weights.sum() - mixed.log().mean())
            return Local(value, gradient, dense_step(gradient, ratio.T @ ratio / len(ratio)))

        start = torch.full_like(relative[0], 1 / 3)
        best = minimise(objective, start, lower=torch.zeros_like(start), max_steps=max_steps)
        weights = best.place / best.place.sum()
        gap = float((relative / (relative @ weights)[:, None]).mean(dim=0).max()) - 1
        alone, mixed = cooled.fitted, best.record(predictions)
        fitted = replace(
            mixed,
            converged=alone.converged and mixed.converged,
            certificate=max(gap, alone.certificate),
            num_steps=max(alone.num_steps, mixed.num_steps),
        )
        return cls(cooled.temperature, weights, fitted=fitted)


def _components(logits: Tensor, temperature: float) -> Tensor:
    """Log-probabilities of the three components, [N, K, 3]."""
    cooled = (logits / temperature).log_softmax(dim=1)
    uniform = torch.zeros_like(logits).log_softmax(dim=1)
    return torch.stack([cooled, logits.log_softmax(dim=1), uniform], dim=2)
