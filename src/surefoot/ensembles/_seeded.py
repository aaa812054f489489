"""Random numbers of a given seed inside a block."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """The global generators start from `seed` inside the block, and go on after it as if it had not been.

    >>> with seeded(0):
    ...     first = torch.rand(1)
    >>> with seeded(0):
    ...     print(torch.equal(torch.rand(1), first))
    True
    """
    mps = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None
    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.manual_seed(seed)
            yield
    finally:
        if mps is not None:
            torch.mps.set_rng_state(mps)
