"""The numbers of a reliability diagram."""

from surefoot.metrics import reliability
from surefoot.training.observers.observer import Stateless
from surefoot.training.snapshot import Snapshot

FIELDS = ("count", "confidence", "accuracy", "low", "high")


class Reliability(Stateless):
    """Per bin of the test split's confidence: samples, mean confidence, accuracy and its 95 % limits (Wilson's).

    Under `test/bin_00_count` and so on, the first bin being 0; a bin without samples has nothing but its count. Shares
    the forward pass.
    """

    def __init__(self, *, num_bins: int = 15) -> None:
        if not 1 <= num_bins <= 100:
            raise ValueError(f"`num_bins` must lie in 1..100, got {num_bins}.")
        self.num_bins = num_bins
        self.quantities: tuple[str, ...] = tuple(f"bin_{k:02d}_{name}" for k in range(num_bins) for name in FIELDS)

    def __call__(self, snapshot: Snapshot) -> dict[str, float]:
        row: dict[str, float] = {}
        for k, held in enumerate(reliability(snapshot.predictions("test"), num_bins=self.num_bins)):
            for name in FIELDS if held.count else FIELDS[:1]:
                row[f"test/bin_{k:02d}_{name}"] = float(getattr(held, name))
        return row
