"""What every ensemble is."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from surefoot.ensembles._seeded import seeded
from surefoot.eval_mode import evaluating
from surefoot.losses import Batch, Loss, Objective


class Ensemble(nn.Module, ABC):
    """A classifier whose probabilities are the mean of its members', or over draws of one that is random.

    As a module it maps inputs to the logarithms of those probabilities, which are logits like any other; in eval mode
    with the draws of seed 0, so that whoever looks sees one fixed classifier. Training goes by `objective`. In training
    random numbers come from the global generators, as those of `nn.Dropout` do.
    """

    @abstractmethod
    def members(self, inputs: Tensor) -> Iterator[Tensor]:
        """Logits [N, K] of each member or draw."""

    @abstractmethod
    def losses(self, batch: Batch, loss: Loss) -> Tensor:
        """What training minimises the mean of, one value per sample [N]."""

    def objective(self, loss: Loss) -> Objective:
        """The losses of this kind of ensemble as an objective of the ensemble and a batch."""
        return EnsembleLoss(loss)

    def forward(self, inputs: Tensor) -> Tensor:
        """The logarithm of the mean probabilities, [N, K]."""
        with nullcontext() if self.training else seeded(0):
            logs = torch.stack([logits.log_softmax(dim=1) for logits in self.members(inputs)])
        return logs.logsumexp(dim=0) - math.log(len(logs))

    @torch.no_grad()
    def predict(self, inputs: Tensor, *, seed: int = 0) -> Tensor:
        """The mean probabilities [N, K], in eval mode, the same for the same seed.

        Mode, buffers and generators are restored.
        """
        with evaluating(self), seeded(seed):
            probabilities = [logits.softmax(dim=1) for logits in self.members(inputs)]
        return torch.stack(probabilities).mean(dim=0)


@dataclass(frozen=True)
class EnsembleLoss:
    """A loss of logits as the objective of an ensemble; in eval mode with the draws of seed 0."""

    loss: Loss

    def __call__(self, model: nn.Module, batch: Batch, /) -> Tensor:
        if not isinstance(model, Ensemble):
            raise ValueError(f"`model` must be the ensemble that gave this objective, got a {type(model).__name__}.")
        with nullcontext() if model.training else seeded(0):
            return model.losses(batch, self.loss)


def check_count(name: str, count: int) -> None:
    """Raise ValueError unless a number of members or draws is at least 1."""
    if count < 1:
        raise ValueError(f"`{name}` must be at least 1, got {count}.")
