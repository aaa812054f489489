"""Weights as one flat vector, and a context that displaces and restores them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor


def flat(tensors: Sequence[Tensor]) -> Tensor:
    """All tensors joined into one vector, in order.

    >>> flat([torch.ones(2, 1), torch.zeros(1)]).tolist()
    [1.0, 1.0, 0.0]
    """
    return torch.cat([t.reshape(-1) for t in tensors])  # [P]


def unflat(vector: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Cut a flat vector back into tensors shaped `like` those given; the inverse of `flat`."""
    sizes = [t.numel() for t in like]
    if vector.shape != (sum(sizes),):
        raise ValueError(f"`vector` must have shape [{sum(sizes)}], got {list(vector.shape)}.")
    return [part.view_as(t) for part, t in zip(torch.split(vector, sizes), like, strict=True)]


@contextmanager
def displaced(params: Sequence[Tensor], by: Sequence[Tensor]) -> Iterator[None]:
    """Weights moved by `by` inside the block, and back to the same bits after it, whatever happens inside.

    Costs one copy of the weights. The copy is put back rather than the step subtracted: subtraction rounds.

    >>> w = torch.tensor([1.0])
    >>> with displaced([w], by=[torch.tensor([0.5])]):
    ...     print(w.item())
    1.5
    >>> w.item()
    1.0
    """
    originals = [p.detach().clone() for p in params]
    try:
        with torch.no_grad():
            for p, step in zip(params, by, strict=True):
                p.add_(step)
        torch.clear_autocast_cache()  # it may hold casts of the weights before
        yield
    finally:
        with torch.no_grad():
            for p, original in zip(params, originals, strict=True):
                p.copy_(original)
        torch.clear_autocast_cache()
