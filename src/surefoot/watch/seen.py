"""What was seen of a model at one moment, and how to look without leaving a trace."""

import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from surefoot.eval_mode import evaluating
from surefoot.losses import Lifted
from surefoot.predictions import Predictions
from surefoot.training.process_group import ProcessGroup
from surefoot.training.snapshot import Snapshot


@dataclass(frozen=True, eq=False)
class Seen(Snapshot):
    """A snapshot whose predictions are known already; its splits hold this process's samples, if they were kept."""

    known: Mapping[str, Predictions] = field(default_factory=dict)

    def predictions(self, split: str) -> Predictions:
        """What was said about a split, by all processes."""
        return self.known[split]

    def logits(self, split: str) -> Tensor:
        """The logits of that."""
        return self.known[split].logits

    def loss(self, split: str) -> float:
        """Mean of the loss over a split."""
        assert isinstance(self.objective, Lifted)
        found = self.known[split]
        with torch.no_grad():
            logits = found.logits.float() if found.logits.dtype.itemsize < 4 else found.logits
            return float(self.objective.loss(logits, found.labels).mean())


@contextmanager
def without_a_trace(model: nn.Module, loader: Any = None) -> Iterator[None]:
    """The model in eval mode, without a graph; afterwards modes and generators, the loader's too, are as before.

    Casts of weights that autocast keeps are neither used, they may be older than the last step, nor added to.
    """
    generators = {
        id(found): found
        for place in (loader, getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None))
        if isinstance(found := getattr(place, "generator", None), torch.Generator)
    }
    states = [(generator, generator.get_state()) for generator in generators.values()]
    devices = {p.device for p in model.parameters() if p.device.type == "cuda"}
    python, numpy, caching = random.getstate(), np.random.get_state(), torch.is_autocast_cache_enabled()
    try:
        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode(False))  # its tensors could not be differentiated later
            stack.enter_context(torch.random.fork_rng(devices=list(devices)))
            stack.enter_context(evaluating(model))
            stack.enter_context(torch.no_grad())
            torch.set_autocast_cache_enabled(False)
            yield
    finally:
        torch.set_autocast_cache_enabled(caching)
        random.setstate(python)
        np.random.set_state(numpy)
        for generator, state in states:
            generator.set_state(state)


def current_process_group() -> ProcessGroup:
    """The place of this process in torch's default group, or the only one."""
    return ProcessGroup.here() if dist.is_available() and dist.is_initialized() else ProcessGroup()


def gathered(part: Tensor, *, among: ProcessGroup) -> Tensor:
    """The rows of all processes in their order, however many each has; every process must call it."""
    if among.count == 1:
        return part
    sizes: list[int] = [0] * among.count
    dist.all_gather_object(sizes, len(part))
    padded = part.new_zeros(max(sizes), *part.shape[1:])
    padded[: len(part)] = part
    parts = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(parts, padded)
    return torch.cat([whole[:size] for whole, size in zip(parts, sizes, strict=True)])
