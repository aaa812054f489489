"""MIMO."""

from collections.abc import Iterator
from copy import deepcopy

import torch
from torch import Tensor, nn

from surefoot.ensembles._convert import Layer, channels
from surefoot.ensembles.ensemble import Ensemble, check_count
from surefoot.losses import Batch, Loss


class MIMO(Ensemble):
    """One network that takes M inputs and gives M outputs, and learns M classifiers in it. Havasi et al. 2021.

    Of a copy of `model` the first Linear or Conv2d becomes M times as wide at its input, the last Linear at its output,
    in the order of registration. In training every member gets the batch's samples in an order of its own, each
    `batch_repetitions` times, the share `input_repetition` of them in the same order for all; the objective is the sum
    over members. In prediction all get the same sample. Channels are stacked channel by channel: c0m0, c0m1, ...

    >>> ensemble = MIMO(nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3)), num_members=3)
    >>> ensemble.predict(torch.zeros(7, 2)).shape
    torch.Size([7, 3])
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        num_members: int = 3,
        batch_repetitions: int = 4,
        input_repetition: float = 0.0,
    ) -> None:
        super().__init__()
        check_count("num_members", num_members)
        check_count("batch_repetitions", batch_repetitions)
        if not 0 <= input_repetition <= 1:
            raise ValueError(f"`input_repetition` must lie in [0, 1], got {input_repetition}.")
        self.num_members = num_members
        self.batch_repetitions, self.input_repetition = batch_repetitions, input_repetition
        self.model = _put(deepcopy(model), *_widened_input(model, num_members))
        self.model = _put(self.model, *_widened_output(self.model, num_members))

    def members(self, inputs: Tensor) -> Iterator[Tensor]:
        """Logits [N, K] of each member, all given the same samples."""
        return iter(self._logits([inputs] * self.num_members))

    def losses(self, batch: Batch, loss: Loss) -> Tensor:
        """The sum over members, for each sample the mean over its repetitions."""
        orders = self.orders(len(batch.labels), device=batch.labels.device)  # [M, reps N]
        logits = self._logits([batch.inputs[order] for order in orders])
        values = torch.stack([loss(z, batch.labels[order]) for z, order in zip(logits, orders, strict=True)])
        total = values.new_zeros(len(batch.labels)).index_add(0, orders.flatten(), values.flatten())
        return total / self.batch_repetitions

    def orders(self, number: int, *, device: torch.device | None = None) -> Tensor:
        """Which of `number` samples each member gets in each row of a training batch, [M, repetitions number]."""
        whole = torch.arange(number, device=device).repeat(self.batch_repetitions)
        whole = whole[torch.randperm(len(whole), device=device)]
        own = round((1 - self.input_repetition) * len(whole))
        return torch.stack(
            [torch.cat([whole[:own][torch.randperm(own, device=device)], whole[own:]]) for _ in range(self.num_members)]
        )

    def _logits(self, inputs: list[Tensor]) -> Tensor:
        stacked = torch.stack(inputs, dim=2).flatten(1, 2)  # [N, C M, ...]
        logits: Tensor = self.model(stacked)
        return logits.view(len(logits), self.num_members, -1).transpose(0, 1)  # [M, N, K]


def _layers(model: nn.Module) -> list[tuple[str, Layer]]:
    layers = [(name, m) for name, m in model.named_modules() if type(m) in (nn.Linear, nn.Conv2d)]
    if not layers:
        raise ValueError(f"`model` must have a Linear or Conv2d layer to widen, got a {type(model).__name__} of none.")
    return layers


def _widened_input(model: nn.Module, times: int) -> tuple[str, nn.Module]:
    name, layer = _layers(model)[0]
    into, out = channels(layer)
    if isinstance(layer, nn.Linear):
        return name, _started(nn.Linear(times * into, out, bias=layer.bias is not None), layer, shrink=times)
    if layer.groups > 1:
        raise ValueError(f"The first layer must not be grouped to be widened, got {layer.groups} groups in {name!r}.")
    wide = nn.Conv2d(
        times * into,
        out,
        layer.kernel_size,  # type: ignore[arg-type]
        stride=layer.stride,  # type: ignore[arg-type]
        padding=layer.padding,  # type: ignore[arg-type]
        dilation=layer.dilation,  # type: ignore[arg-type]
        bias=layer.bias is not None,
        padding_mode=layer.padding_mode,
    )
    return name, _started(wide, layer, shrink=times)


def _widened_output(model: nn.Module, times: int) -> tuple[str, nn.Module]:
    name, layer = _layers(model)[-1]
    if not isinstance(layer, nn.Linear):
        raise ValueError(f"The last layer must be Linear to be widened, got {name!r}, a {type(layer).__name__}.")
    wide = nn.Linear(layer.in_features, times * layer.out_features, bias=layer.bias is not None)
    return name, _started(wide, layer, shrink=1)


@torch.no_grad()
def _started(wide: Layer, layer: Layer, *, shrink: int) -> nn.Module:
    """Weights as large as those of the layer, for as many inputs as `shrink` times its own; biases repeated."""
    wide = wide.to(layer.weight)
    wide.weight.normal_(0.0, 1.0).mul_((layer.weight.square().mean() / shrink).sqrt())
    if wide.bias is not None and layer.bias is not None:
        wide.bias.copy_(layer.bias.repeat(len(wide.bias) // len(layer.bias)))
    return wide


def _put(model: nn.Module, name: str, layer: nn.Module) -> nn.Module:
    if not name:
        return layer
    model.set_submodule(name, layer)
    return model
