"""Predictions of a model at one moment, made without leaving a trace in it."""

import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from surefoot.eval_mode import evaluating
from surefoot.losses import Lifted
from surefoot.predictions import Predictions
from surefoot.training.snapshot import Snapshot


@dataclass(frozen=True, eq=False)
class PredictedSnapshot(Snapshot):
    """A snapshot whose predictions are made already; its splits hold this process's samples, if they were kept."""

    made: Mapping[str, Predictions] = field(default_factory=dict)

    def predictions(self, split: str) -> Predictions:
        """The predictions on a split, of all processes."""
        return self.made[split]

    def logits(self, split: str) -> Tensor:
        """The logits of those predictions."""
        return self.made[split].logits

    def loss(self, split: str) -> float:
        """Mean of the loss over a split."""
        assert isinstance(self.objective, Lifted)
        predictions = self.made[split]
        with torch.no_grad():
            logits = predictions.logits.float() if predictions.logits.dtype.itemsize < 4 else predictions.logits
            return float(self.objective.loss(logits, predictions.labels).mean())


@contextmanager
def without_a_trace(model: nn.Module, loader: Any = None) -> Iterator[None]:
    """The model in eval mode, without a graph; afterwards modes and generators, the loader's too, are as before.

    Casts of weights that autocast keeps are neither used, they may be older than the last step, nor added to.
    """
    generators = {
        id(generator): generator
        for place in (loader, getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None))
        if isinstance(generator := getattr(place, "generator", None), torch.Generator)
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
