"""Beta calibration."""

import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from surefoot.posthoc._logistic import fit_each_class
from surefoot.posthoc._one_versus_rest import scores
from surefoot.posthoc.map import Map
from surefoot.predictions import Predictions


@dataclass(frozen=True, eq=False)
class Beta(Map):
    """The probability sigmoid(a log p - b log(1 - p) + c), a, b >= 0, of each class against the rest. Kull et al. 2017.

    Fitted to Platt's smoothed targets (our choice), so that an optimum exists also for a class without samples or one
    that is perfectly separated. Cost: some ten passes.
    """

    a: Tensor  # [K]
    b: Tensor  # [K]
    c: Tensor  # [K]

    def _mapped(self, logits: Tensor) -> Tensor:
        a, b, c = (part.to(logits.device) for part in (self.a, self.b, self.c))
        score = scores(logits)
        return logsigmoid(a * logsigmoid(score) - b * logsigmoid(-score) + c)

    @classmethod
    @torch.no_grad()
    def fit(cls, predictions: Predictions, *, max_steps: int = 100) -> Self:
        """The a, b, c of least cross-entropy, each class by itself.

        The certificate is the infinity norm of the gradient projected on a, b >= 0, the largest of the classes.
        """
        parameters, fitted = fit_each_class(predictions, _features, lower=[0.0, 0.0, -math.inf], max_steps=max_steps)
        return cls(*parameters, fitted=fitted)


def _features(score: Tensor) -> Tensor:
    return torch.stack([logsigmoid(score), -logsigmoid(-score), torch.ones_like(score)], dim=1)
