"""Mean-field variational inference."""

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.ensembles._bayesian import Bayesian, BayesianLayer
from surefoot.ensembles._convert import Layer, channels, converted, per_channel
from surefoot.ensembles._normal import divergence, first_rho, signs
from surefoot.losses import Batch, Loss

PriorMean = float | Literal["tied"]


class Variational(Bayesian):
    """Every weight has a normal distribution of its own; the predictions of draws are averaged. Blundell et al. 2015.

    Of a copy of `model`, whose weights are the first means; biases and normalisation stay numbers. Each sample has its
    own draw by Flipout (Wen et al. 2018). The prior is N(`prior_mean`, `prior_std`^2); with the mean "tied" to that of
    the weight itself, as in the benchmarks that set the numbers, the KL term pulls deviations alone.

    >>> ensemble = Variational(nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3)), num_train=100)
    >>> ensemble.predict(torch.zeros(7, 2)).shape
    torch.Size([7, 3])
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        num_train: int,
        anneal_steps: int = 1,
        num_samples: int = 5,
        first_std: float = 1e-3,
        prior_std: float = 0.1,
        prior_mean: PriorMean = "tied",
    ) -> None:
        super().__init__(
            num_train=num_train,
            anneal_steps=anneal_steps,
            num_samples=num_samples,
            first_std=first_std,
            prior_std=prior_std,
        )
        self.model = converted(
            model,
            lambda layer: FlipoutLayer(layer, first_std=first_std, prior_std=prior_std, prior_mean=prior_mean),
        )

    def members(self, inputs: Tensor) -> Iterator[Tensor]:
        """Logits [N, K] of each draw."""
        return (self.model(inputs) for _ in range(self.num_samples))

    def losses(self, batch: Batch, loss: Loss) -> Tensor:
        """The losses of one draw."""
        return loss(self.model(batch.inputs), batch.labels)


class FlipoutLayer(BayesianLayer):
    r"""A layer with weights W + E o (s_n r_n^T) for sample n: E normal of deviation softplus(rho), s, r random signs.

    E is shared by the batch, the signs are not: samples are uncorrelated at the cost of one more convolution.
    """

    def __init__(self, layer: Layer, *, first_std: float, prior_std: float, prior_mean: PriorMean) -> None:
        super().__init__()
        self.layer = layer
        self.rho = nn.Parameter(first_rho(layer.weight.detach(), std=first_std))
        self.prior_std, self.prior_mean = prior_std, prior_mean

    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs [N, ...] of inputs [N, ...]."""
        layer = self.layer
        into, out = (signs(len(inputs), size, layer) for size in channels(layer))
        flipped = inputs * per_channel(into, layer, inputs)
        weight = F.softplus(self.rho) * torch.randn_like(self.rho)
        noise = (
            F.linear(flipped, weight)
            if isinstance(layer, nn.Linear)
            else layer._conv_forward(flipped, weight, None)  # padding of every mode
        )
        outputs: Tensor = layer(inputs)
        return outputs + noise * per_channel(out, layer, noise)

    def kl(self) -> Tensor:
        """The divergence from the prior, summed over weights."""
        mean = self.layer.weight
        prior = mean if self.prior_mean == "tied" else self.prior_mean
        return divergence(mean, F.softplus(self.rho), prior_mean=prior, prior_std=self.prior_std).sum()
