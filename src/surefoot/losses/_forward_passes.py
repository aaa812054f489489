"""Several forward passes of one batch through one model."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parallel import DistributedDataParallel

from surefoot.losses._outputs import wide


class ForwardPasses:
    """Logits of a model for a batch and for the same batch shifted, that differ by nothing but the shift.

    Every pass draws the random numbers of the first, so that dropout leaves out the same units. Normalisation in train
    mode goes by the batch it gets, but only the first pass updates its running statistics: evaluation is for inputs
    that nobody shifted. `DistributedDataParallel` is called for the first pass only: its preparations are for one
    backward pass, and copying buffers between two passes would spoil the first one's graph.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._states: tuple[Tensor, ...] = ()

    def first(self, inputs: Tensor) -> Tensor:
        """Logits [N, K], and the generators go on."""
        self._states = _generators(inputs.device)
        return wide(self.model(inputs))

    def again(self, inputs: Tensor) -> Tensor:
        """Logits [N, K] with the first pass's draws, leaving no trace."""
        inner = self.model.module if isinstance(self.model, DistributedDataParallel) else self.model
        now = _generators(inputs.device)
        try:
            _set_generators(inputs.device, self._states)
            with _nothing_noted(inner):
                return wide(inner(inputs))
        finally:
            _set_generators(inputs.device, now)


@contextmanager
def _nothing_noted(model: nn.Module) -> Iterator[None]:
    """Normalisation layers in train mode keep no running statistics inside the block."""
    noting = [m for m in model.modules() if isinstance(m, _NormBase) and m.training and m.track_running_stats]
    try:
        for layer in noting:
            layer.track_running_stats = False  # restoring values later would spoil the graph, which holds the buffers
        yield
    finally:
        for layer in noting:
            layer.track_running_stats = True


def _generators(device: torch.device) -> tuple[Tensor, ...]:
    own = () if device.type == "cpu" else (torch.get_device_module(device).get_rng_state(),)
    return (torch.get_rng_state(), *own)


def _set_generators(device: torch.device, states: tuple[Tensor, ...]) -> None:
    torch.set_rng_state(states[0])
    for state in states[1:]:
        torch.get_device_module(device).set_rng_state(state)


def movable(inputs: Tensor) -> Tensor:
    """The inputs as a leaf that gradients are taken in; ValueError unless they are rows of floating point numbers."""
    if not inputs.is_floating_point() or inputs.ndim < 2 or not inputs.shape[1:].numel():
        raise ValueError(
            f"`inputs` must be floating point of shape [N, ...] to be shifted, got {inputs.dtype} "
            f"of shape {list(inputs.shape)}."
        )
    return inputs.detach().requires_grad_()
