"""The reliability diagram of every split, as numbers."""

import math

from surefoot.metrics.bins import top_label_sums
from surefoot.training.observers.observer import Stateless, keyed
from surefoot.training.snapshot import Snapshot


class ReliabilityObserver(Stateless):
    """Per equal-width bin of the confidence, the number of samples, their mean confidence and how many are right.

    Of an empty bin there is no mean confidence. Shares the forward pass.
    """

    def __init__(self, *, num_bins: int = 15) -> None:
        if not 1 <= num_bins <= 99:
            raise ValueError(f"`num_bins` must lie in 1..99, got {num_bins}.")
        self.num_bins = num_bins
        self.quantities: tuple[str, ...] = tuple(
            f"bin_{k:02d}_{what}" for what in ("count", "confidence", "right") for k in range(1, num_bins + 1)
        )

    def __call__(self, snapshot: Snapshot) -> dict[str, float]:
        row: dict[str, float] = {}
        for split in snapshot.splits:
            sums = top_label_sums(snapshot.predictions(split), num_bins=self.num_bins)
            parts = (sums.count, sums.score / sums.count, sums.hit)
            values = keyed(split, self.quantities, [value for part in parts for value in part.tolist()])
            row |= {key: value for key, value in values.items() if not math.isnan(value)}
        return row
