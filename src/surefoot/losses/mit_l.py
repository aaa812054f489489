"""Mixup inference in training, at the last layer."""

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.losses._draws import Draws
from surefoot.losses._outputs import wide
from surefoot.losses.mixup import mixture
from surefoot.losses.objective import Batch

_TRIES = 10_000


class MITL(Draws):
    r"""Cross-entropy of each sample's own logits, decoded from two mixtures of the same pair.

    f_1 and f_2 are the logits of the mixtures with shares a > b of x_i and the rest of x_j; were the network linear,
    ((1 - b) f_1 - (1 - a) f_2) / (a - b) and (a f_2 - b f_1) / (a - b) would be the logits of x_i and x_j, and half
    the cross-entropy of each is the value. a = max(u, 1 - u), b = min(v, 1 - v), u and v ~ Beta(alpha, alpha), drawn
    until a - b >= `margin`: a small difference would blow the decoded logits up. Range [0, inf).

    Wang et al. 2023, with alpha and margin of their code's defaults; their commands have alpha 1 and margin 0, which is
    refused here. Couples the samples of a batch. Remembers the number of steps, for its draws. Two forward and backward
    passes, which both count for batch norm. Evaluation takes the network as it is.
    """

    couples_samples: ClassVar[bool] = True

    def __init__(self, *, alpha: float = 0.5, margin: float = 0.5, seed: int = 0) -> None:
        super().__init__(seed=seed)
        if not alpha > 0:
            raise ValueError(f"`alpha` must be positive, got {alpha}.")
        if not 0 < margin < 1:
            raise ValueError(f"`margin` must lie between 0 and 1, got {margin}.")
        self.alpha, self.margin = alpha, margin
        self.shares(np.random.default_rng(seed))  # refuses now what cannot be drawn later

    def __call__(self, model: nn.Module, batch: Batch, /) -> Tensor:
        generator = self.generator(batch)
        a, b = self.shares(generator)
        partner = torch.from_numpy(generator.permutation(len(batch.labels))).to(batch.labels.device)
        one, two = (wide(model(mixture(batch.inputs, batch.inputs[partner], share))) for share in (a, b))
        first, second = decoded(one, two, a, b)
        own = F.cross_entropy(first, batch.labels, reduction="none")
        return (own + F.cross_entropy(second, batch.labels[partner], reduction="none")) / 2  # [N]

    def shares(self, generator: np.random.Generator) -> tuple[float, float]:
        """The shares a and b of the first sample in the two mixtures."""
        for _ in range(_TRIES):
            u, v = (float(share) for share in generator.beta(self.alpha, self.alpha, size=2))
            a, b = max(u, 1 - u), min(v, 1 - v)
            if a - b >= self.margin:
                return a, b
        raise ValueError(
            f"`margin` must be one that shares of Beta({self.alpha}, {self.alpha}) reach, got {self.margin}: "
            f"none of {_TRIES} draws did."
        )


def decoded(one: Tensor, two: Tensor, a: float, b: float) -> tuple[Tensor, Tensor]:
    """The logits of both samples, from those of their mixtures with shares a and b of the first."""
    return ((1 - b) * one - (1 - a) * two) / (a - b), (a * two - b * one) / (a - b)
