"""Platt scaling."""

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
class Platt(Map):
    """The probability sigmoid(slope_k s_k + offset_k) of each class against the rest, s_k the logit of p_k. Platt 1999.

    A class without samples gets the fit to its smoothed targets. Cost: some ten passes.
    """

    slope: Tensor  # [K]
    offset: Tensor  # [K]

    def _mapped(self, logits: Tensor) -> Tensor:
        return logsigmoid(scores(logits) * self.slope.to(logits.device) + self.offset.to(logits.device))

    @classmethod
    @torch.no_grad()
    def fit(cls, predictions: Predictions, *, max_steps: int = 100) -> Self:
        """The slopes and offsets of least cross-entropy with Platt's smoothed targets, each class by itself.

        The certificate is the infinity norm of the gradient, the largest of the classes.
        """
        parameters, fitted = fit_each_class(predictions, _features, lower=[-math.inf, -math.inf], max_steps=max_steps)
        return cls(*parameters, fitted=fitted)


def _features(score: Tensor) -> Tensor:
    return torch.stack([score, torch.ones_like(score)], dim=1)
