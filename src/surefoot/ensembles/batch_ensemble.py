"""BatchEnsemble."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from surefoot.ensembles._convert import Layer, channels, converted, per_channel, without_bias
from surefoot.ensembles.ensemble import Ensemble, check_count
from surefoot.losses import Batch, Loss


class BatchEnsemble(Ensemble):
    """Members that share all weights but for a factor per input and output channel and a bias. Wen et al. 2020.

    Member m has the weights W o (s_m r_m^T) in every Linear and Conv2d of a copy of `model`, r and s drawn from
    N(1, `spread`^2). All are run in one pass, on the batch tiled: rows [m B, (m + 1) B) belong to member m. Batch norm
    is shared, and so are its statistics. The objective is the mean over members.

    >>> ensemble = BatchEnsemble(nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3)), num_members=4)
    >>> ensemble.predict(torch.zeros(7, 2)).shape
    torch.Size([7, 3])
    """

    def __init__(self, model: nn.Module, *, num_members: int = 4, spread: float = 0.5) -> None:
        super().__init__()
        check_count("num_members", num_members)
        if spread < 0:
            raise ValueError(f"`spread` must be at least 0, got {spread}.")
        self.num_members = num_members
        self.model = converted(model, lambda layer: BatchEnsembleLayer(layer, num_members=num_members, spread=spread))

    def members(self, inputs: Tensor) -> Iterator[Tensor]:
        """Logits [N, K] of each member."""
        logits: Tensor = self.model(tiled(inputs, self.num_members))
        return iter(logits.view(self.num_members, len(inputs), -1))

    def losses(self, batch: Batch, loss: Loss) -> Tensor:
        """The mean of the members' losses."""
        return tiled_losses(self.model, batch, loss, self.num_members)

    def groups(self, *, lr: float, weight_decay: float, fast: float = 0.5) -> list[dict[str, Any]]:
        """Parameter groups for an optimizer: members' own weights at `fast` times the rate, their factors undecayed."""
        layers = [module for module in self.modules() if isinstance(module, BatchEnsembleLayer)]
        factors = [p for layer in layers for p in (layer.into, layer.out)]
        biases = [layer.bias for layer in layers if layer.bias is not None]
        own = {id(p) for p in (*factors, *biases)}
        shared = [p for p in self.parameters() if id(p) not in own]
        return [
            {"params": shared, "lr": lr, "weight_decay": weight_decay},
            {"params": factors, "lr": fast * lr, "weight_decay": 0.0},
            {"params": biases, "lr": fast * lr, "weight_decay": weight_decay},
        ]


class BatchEnsembleLayer(nn.Module):
    """A layer that multiplies its inputs by r_m and its outputs by s_m and adds b_m, in the rows of member m."""

    def __init__(self, layer: Layer, *, num_members: int, spread: float) -> None:
        super().__init__()
        before = without_bias(layer)
        self.num_members = num_members
        self.layer = layer
        self.into, self.out = (
            nn.Parameter(1 + spread * torch.randn(num_members, size, device=layer.weight.device).to(layer.weight))
            for size in channels(layer)
        )  # [M, C]
        self.bias = None if before is None else nn.Parameter(before.detach().repeat(num_members, 1))

    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs [M B, ...] of inputs [M B, ...]."""
        scaled = inputs * per_channel(rows(self.into, inputs), self.layer, inputs)
        outputs: Tensor = self.layer(scaled)
        outputs = outputs * per_channel(rows(self.out, inputs), self.layer, outputs)
        if self.bias is None:
            return outputs
        return outputs + per_channel(rows(self.bias, inputs), self.layer, outputs)


def rows(values: Tensor, inputs: Tensor) -> Tensor:
    """Values of members [M, C], for each row of inputs [M B, ...] those of its member: [M B, C]."""
    if len(inputs) % len(values):
        raise ValueError(
            f"A batch must hold equally many rows for each of {len(values)} members, got {len(inputs)} rows: "
            "call the ensemble, which tiles its inputs, not the model inside."
        )
    return values.repeat_interleave(len(inputs) // len(values), dim=0)


def tiled(values: Tensor, times: int) -> Tensor:
    """The same rows again and again: [N, ...] to [M N, ...]."""
    return values.repeat(times, *(1 for _ in values.shape[1:]))


def tiled_losses(model: nn.Module, batch: Batch, loss: Loss, num_members: int) -> Tensor:
    """The mean over members of the losses of a tiled batch, [N]."""
    values = loss(model(tiled(batch.inputs, num_members)), tiled(batch.labels, num_members))
    return values.view(num_members, len(batch.labels)).mean(dim=0)
