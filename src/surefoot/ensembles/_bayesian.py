"""Ensembles of draws from a distribution over weights, trained with a KL term."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from surefoot.ensembles._normal import check_positive
from surefoot.ensembles.ensemble import Ensemble, EnsembleLoss, check_count
from surefoot.losses import Batch, Loss, Objective


class BayesianLayer(nn.Module, ABC):
    """A layer with a distribution over weights."""

    @abstractmethod
    def kl(self) -> Tensor:
        """The divergence of the distribution from its prior."""


class Bayesian(Ensemble):
    """An ensemble of draws from a distribution over weights, trained by the loss plus KL(distribution || prior) / N.

    Layers bring the terms; `num_train` N is the size of the training set. Predictions average `num_samples` draws;
    deviations start at `first_std` and have the prior's `prior_std`. The KL term's weight grows
    from 1 / `anneal_steps` to 1 in so many gradients. Those taken so far, in training mode, are counted in the buffer
    `kl_step`, a part of the state; an optimizer that takes two per step counts twice.
    """

    kl_step: Tensor

    def __init__(
        self, *, num_train: int, anneal_steps: int, num_samples: int, first_std: float, prior_std: float
    ) -> None:
        super().__init__()
        for name, count in (("num_train", num_train), ("anneal_steps", anneal_steps), ("num_samples", num_samples)):
            check_count(name, count)
        check_positive(first_std=first_std, prior_std=prior_std)
        self.num_train, self.anneal_steps, self.num_samples = num_train, anneal_steps, num_samples
        self.register_buffer("kl_step", torch.zeros((), dtype=torch.int64))

    def kl(self) -> Tensor:
        """The divergence of all weights' distributions from their priors, summed."""
        return torch.stack([module.kl() for module in self.modules() if isinstance(module, BayesianLayer)]).sum()

    def objective(self, loss: Loss) -> Objective:
        """The losses of this kind of ensemble and the KL term, as an objective of the ensemble and a batch."""
        return WithKL(EnsembleLoss(loss))


@dataclass(frozen=True)
class WithKL:
    """An objective of a Bayesian ensemble, and min(1, (step + 1) / `anneal_steps`) KL / `num_train` for each sample."""

    loss: Objective

    def __call__(self, model: nn.Module, batch: Batch, /) -> Tensor:
        values = self.loss(model, batch)
        assert isinstance(model, Bayesian)  # or `loss` would have refused it
        weight = ((model.kl_step + 1).to(values) / model.anneal_steps).clamp(max=1)
        if model.training:
            model.kl_step += 1
        return values + weight * model.kl() / model.num_train
