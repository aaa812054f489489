"""Rank-1 Bayesian neural network."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.ensembles._bayesian import Bayesian, BayesianLayer
from surefoot.ensembles._convert import Layer, channels, converted, per_channel, without_bias
from surefoot.ensembles._normal import divergence, drawn, first_rho, signs
from surefoot.ensembles.batch_ensemble import rows, tiled, tiled_losses
from surefoot.ensembles.ensemble import check_count
from surefoot.losses import Batch, Loss

LARGEST = 10.0  # drawn factors are cut to [-10, 10]


class Rank1(Bayesian):
    """BatchEnsemble whose factors r and s are normally distributed and drawn anew for every sample.

    Dusenberry et al. 2020. Means start at random signs; the prior of a factor is N(1, `prior_std`^2). Weights, biases
    and normalisation stay numbers. Training and prediction tile the batch like `BatchEnsemble`, and `num_samples` such
    passes are averaged.

    >>> ensemble = Rank1(nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3)), num_train=100)
    >>> ensemble.predict(torch.zeros(7, 2)).shape
    torch.Size([7, 3])
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        num_train: int,
        anneal_steps: int = 1,
        num_members: int = 4,
        num_samples: int = 1,
        first_std: float = (1e-3 / (1 - 1e-3)) ** 0.5,
        prior_std: float = 0.1,
    ) -> None:
        super().__init__(
            num_train=num_train,
            anneal_steps=anneal_steps,
            num_samples=num_samples,
            first_std=first_std,
            prior_std=prior_std,
        )
        check_count("num_members", num_members)
        self.num_members = num_members
        self.model = converted(
            model, lambda layer: Rank1Layer(layer, num_members=num_members, first_std=first_std, prior_std=prior_std)
        )

    def members(self, inputs: Tensor) -> Iterator[Tensor]:
        """Logits [N, K] of each member in each pass."""
        for _ in range(self.num_samples):
            yield from self.model(tiled(inputs, self.num_members)).view(self.num_members, len(inputs), -1)

    def losses(self, batch: Batch, loss: Loss) -> Tensor:
        """The mean of the members' losses, of one draw each."""
        return tiled_losses(self.model, batch, loss, self.num_members)


class Rank1Layer(BayesianLayer):
    """A layer that multiplies inputs and outputs by draws from member m's normal distributions and adds b_m."""

    def __init__(self, layer: Layer, *, num_members: int, first_std: float, prior_std: float) -> None:
        super().__init__()
        before = without_bias(layer)
        self.layer = layer
        self.prior_std = prior_std
        self.into, self.out = (nn.Parameter(signs(num_members, size, layer)) for size in channels(layer))  # [M, C]
        self.into_rho, self.out_rho = (
            nn.Parameter(first_rho(mean.detach(), std=first_std)) for mean in (self.into, self.out)
        )
        self.bias = None if before is None else nn.Parameter(before.detach().repeat(num_members, 1))

    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs [M B, ...] of inputs [M B, ...]."""
        into, out = (
            drawn(rows(mean, inputs), rows(rho, inputs)).clamp(-LARGEST, LARGEST)
            for mean, rho in ((self.into, self.into_rho), (self.out, self.out_rho))
        )
        outputs: Tensor = self.layer(inputs * per_channel(into, self.layer, inputs))
        outputs = outputs * per_channel(out, self.layer, outputs)
        if self.bias is None:
            return outputs
        return outputs + per_channel(rows(self.bias, inputs), self.layer, outputs)

    def kl(self) -> Tensor:
        """The divergence from the prior, summed over factors of all members."""
        terms = [
            divergence(mean, F.softplus(rho), prior_mean=1.0, prior_std=self.prior_std).sum()
            for mean, rho in ((self.into, self.into_rho), (self.out, self.out_rho))
        ]
        return torch.stack(terms).sum()
