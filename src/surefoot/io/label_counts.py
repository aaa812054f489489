"""People's votes in files."""

from pathlib import Path

import torch
from torch import Tensor

from surefoot.io.arrays import READABLE, read_arrays
from surefoot.registry import look_up

COUNTS = ("counts", "label_counts", "votes")


def read_label_counts(where: str, *, beside: Path) -> Tensor:
    """Votes [N, K] from a file, if `where` ends as a file that can be read, else from the array of that name `beside`.

    In a file of its own the array is called counts, label_counts or votes.
    """
    named = Path(where)
    if named.suffix.lower() not in READABLE:
        counts = look_up(f"array in {beside}", where, read_arrays(beside))()
        source = f"{beside}: {where!r}"
    else:
        arrays = read_arrays(named)
        name = next((each for each in COUNTS if each in arrays), None)
        if name is None:
            holds = ", ".join(arrays) or "nothing"
            raise ValueError(
                f"{named} must hold an array called {', '.join(COUNTS[:-1])} or {COUNTS[-1]}, got {holds}."
            )
        counts = arrays[name]()
        source = f"{named}: {name!r}"
    if counts.ndim != 2 or counts.dtype == torch.bool:
        raise ValueError(f"{source} must hold numbers of votes [N, K], got {counts.dtype} {list(counts.shape)}.")
    return counts
