"""A model without its rounding."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

import torch
from torch import Tensor, nn

from surefoot.eval_mode import evaluating
from surefoot.predictions import Predictions

_AT_ONCE = 1024  # samples, because numbers in float64 are twice as large


@contextmanager
def exactly(model: nn.Module) -> Iterator[nn.Module]:
    """The model with its weights as stored and float64 arithmetic, in eval mode: a copy unless it is so already.

    Certificates are about this one. In float32 the rounding of logits alone, 1e-7 of their size, can make margins
    differ by more than what two sides of a tight inequality do. On devices without float64 it is the model itself.
    """
    floats = [p for p in (*model.parameters(), *model.buffers()) if p.is_floating_point()]
    as_it_is = all(p.dtype == torch.float64 for p in floats) or any(p.device.type == "mps" for p in floats)
    exact = model if as_it_is else deepcopy(model).double()
    with evaluating(exact):
        yield exact


def exact_predictions(model: nn.Module, inputs: Tensor, labels: Tensor) -> Predictions:
    """What the model says of some samples, in float64 arithmetic and eval mode."""
    with exactly(model) as exact, torch.no_grad():
        precise = any(p.dtype == torch.float64 for p in exact.parameters())
        points = inputs.double() if inputs.is_floating_point() and precise else inputs
        logits = torch.cat([exact(part) for part in torch.split(points, _AT_ONCE)])
    return Predictions(logits, labels)
