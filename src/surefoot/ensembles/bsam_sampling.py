"""Prediction by draws from what Bayesian SAM has learnt."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from surefoot.ensembles.ensemble import Ensemble, check_count
from surefoot.losses import Batch, Loss
from surefoot.params import flat, unflat


class BSAMSampling(Ensemble):
    """The Gaussian of an optimizer `BSAM`, mean w and variance 1 / (N s); predictions of draws are averaged.

    Moellenhoff and Khan 2023. Train a model with the optimizer, then `collect(model, optimizer)`: weights, buffers and
    deviations are copied, so that they can be saved and the training go on. Unlike `optimizer.sampled()` this takes
    nothing from the optimizer's generator. Batch norm keeps the statistics of training. Before `collect` there is
    nothing to draw from, which is refused, or with `model_first` the model speaks alone.
    """

    stds: Tensor
    collected: Tensor

    def __init__(self, model: nn.Module, *, num_samples: int = 32, model_first: bool = False) -> None:
        super().__init__()
        check_count("num_samples", num_samples)
        self.model = deepcopy(model)
        self.num_samples, self.model_first = num_samples, model_first
        self.register_buffer("stds", torch.zeros_like(flat([p.detach() for p in model.parameters()])))  # [P]
        self.register_buffer("collected", torch.zeros((), dtype=torch.bool))

    @torch.no_grad()
    def collect(self, model: nn.Module, optimizer: Any) -> None:
        """Copy the model, and the deviations that the optimizer has learnt for it; 0 where it has no parameter."""
        if not (hasattr(optimizer, "num_samples") and hasattr(optimizer, "first_precision")):
            raise ValueError(f"`optimizer` must be a BSAM, got a {type(optimizer).__name__}.")
        trained = {p for group in optimizer.param_groups for p in group["params"] if p.requires_grad}
        if trained.isdisjoint(model.parameters()):
            raise ValueError("`optimizer` must hold parameters of `model`, got one of none.")
        if model is not self.model:
            self.model.load_state_dict(model.state_dict())
        parts = []
        for p in model.parameters():
            precision = optimizer.state.get(p, {}).get("precision", torch.full_like(p, optimizer.first_precision))
            parts.append((optimizer.num_samples * precision).rsqrt() if p in trained else torch.zeros_like(p))
        self.stds.copy_(flat(parts))
        self.collected.fill_(True)

    def members(self, inputs: Tensor) -> Iterator[Tensor]:
        """Logits [N, K] of each draw."""
        if self.model_first and not self.collected:
            yield self.model(inputs)
            return
        if not self.collected:
            raise ValueError("BSAMSampling has nothing to draw from: call `collect(model, optimizer)` first.")
        named = dict(self.model.named_parameters())
        for _ in range(self.num_samples):
            noise = unflat(self.stds * torch.randn_like(self.stds), list(named.values()))
            weights = {name: p + part for (name, p), part in zip(named.items(), noise, strict=True)}
            yield functional_call(self.model, weights, (inputs,))

    def losses(self, batch: Batch, loss: Loss) -> Tensor:
        """The losses of the model at its present weights."""
        return loss(self.model(batch.inputs), batch.labels)
