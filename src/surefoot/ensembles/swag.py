"""SWAG."""

import math
from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from surefoot.ensembles._batch_norm import buffers_at, has_statistics
from surefoot.ensembles.ensemble import Ensemble, check_count
from surefoot.losses import Batch, Loss
from surefoot.params import flat, unflat


class SWAG(Ensemble):
    r"""A Gaussian around the mean of weights met in training; predictions of draws are averaged. Maddox et al. 2019.

    w = mean + sqrt(scale) (sqrt(variance) z1 + D^T z2 / sqrt(R - 1)) with z1, z2 standard normal and D the last R
    deviations of collected weights from their mean so far; `scale` 1/2 halves the sum of both covariances, as the
    paper does, and 0 is SWA. Call `collect(model)` about once per epoch in the last part of training, at a constant
    learning rate. Batch norm statistics do not average: a model with some needs `batches`, the training inputs as a
    list of tensors or a `DataLoader`, which every draw is run on once. Before the first `collect` there is nothing to
    draw from, which is refused, or with `model_first` the model speaks alone.

    >>> model = nn.Linear(2, 3)
    >>> swag = SWAG(model)
    >>> swag.collect(model)
    >>> swag.predict(torch.zeros(7, 2)).shape
    torch.Size([7, 3])
    """

    num_collected: Tensor
    mean: Tensor
    squares: Tensor
    deviations: Tensor

    def __init__(
        self,
        model: nn.Module,
        *,
        max_rank: int = 20,
        scale: float = 0.5,
        num_samples: int = 30,
        batches: Iterable[Any] = (),
        model_first: bool = False,
    ) -> None:
        super().__init__()
        check_count("max_rank", max_rank)
        check_count("num_samples", num_samples)
        if scale < 0:
            raise ValueError(f"`scale` must be at least 0, got {scale}.")
        if isinstance(batches, Iterator):
            raise ValueError("`batches` must be read once per draw, got an iterator, which ends: give a list.")
        if has_statistics(model) and isinstance(batches, tuple) and not batches:
            raise ValueError("`batches` must be given for a model with batch norm, got none.")
        self.model = deepcopy(model)
        self.max_rank, self.scale, self.num_samples, self.batches = max_rank, scale, num_samples, batches
        self.model_first = model_first
        weights = flat([p.detach() for p in model.parameters()])
        weights = weights.float() if weights.dtype.itemsize < 4 else weights
        self.register_buffer("num_collected", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros_like(weights))  # [P]
        self.register_buffer("squares", torch.zeros_like(weights))  # [P], summed squared deviations
        self.register_buffer("deviations", weights.new_zeros(max_rank, len(weights)))  # [R, P], the oldest overwritten

    @torch.no_grad()
    def collect(self, model: nn.Module) -> None:
        """Count the model's present weights in."""
        weights = flat([p.detach() for p in model.parameters()]).to(self.mean)
        if weights.shape != self.mean.shape:
            raise ValueError(f"`model` must have {len(self.mean)} parameters like the first one, got {len(weights)}.")
        self.num_collected += 1
        number = int(self.num_collected)
        from_before = weights - self.mean
        self.mean += from_before / number
        deviation = weights - self.mean
        self.squares.addcmul_(from_before, deviation)  # unlike the mean of squares less a square, this does not cancel
        self.deviations[(number - 1) % self.max_rank] = deviation

    @property
    def variance(self) -> Tensor:
        """The variance of each weight over what was collected, [P]."""
        return (self.squares / self._number).clamp(min=0)

    @property
    def rank(self) -> int:
        """How many deviations are stored."""
        return min(self._number, self.max_rank)

    def weights(self, diagonal: Tensor, low_rank: Tensor) -> Tensor:
        """The weights [P] that standard normal numbers z1 [P] and z2 [R], oldest deviation first, are mapped to."""
        places = (torch.arange(self.rank) + self._number - self.rank) % self.max_rank
        by_place = low_rank[places.argsort().to(low_rank.device)]
        along = by_place @ self.deviations[: self.rank] / math.sqrt(max(self.rank - 1, 1))
        return self.mean + math.sqrt(self.scale) * (self.variance.sqrt() * diagonal + along)

    def members(self, inputs: Tensor) -> Iterator[Tensor]:
        """Logits [N, K] of each draw."""
        if self.model_first and not self.num_collected:
            yield self.model(inputs)
            return
        named = dict(self.model.named_parameters())
        for _ in range(self.num_samples):
            drawn = self.weights(torch.randn_like(self.mean), torch.randn_like(self.mean[:1].expand(self.rank)))
            parts = zip(named.items(), unflat(drawn, list(named.values())), strict=True)
            weights = {name: part.to(p) for (name, p), part in parts}
            yield functional_call(self.model, {**weights, **buffers_at(self.model, weights, self.batches)}, (inputs,))

    def losses(self, batch: Batch, loss: Loss) -> Tensor:
        """The losses of the model at its present weights."""
        return loss(self.model(batch.inputs), batch.labels)

    @property
    def _number(self) -> int:
        if not self.num_collected:
            raise ValueError("SWAG has no weights to draw from: call `collect(model)` along training first.")
        return int(self.num_collected)
