"""The margin distribution of every split."""

from surefoot.metrics import log_margin_moment, margin_quantiles, mean_margin, min_margin
from surefoot.training.observers.observer import Stateless, keyed
from surefoot.training.snapshot import Snapshot

_LEVELS = {"margin_q01": 0.01, "margin_q05": 0.05, "margin_q25": 0.25, "margin_q50": 0.5, "margin_q75": 0.75}


class MarginsObserver(Stateless):
    """Mean, smallest and quantiles of the true margin, and log mean exp(-margin). Shares the forward pass."""

    quantities: tuple[str, ...] = ("margin_mean", "margin_min", "log_margin_moment", *_LEVELS)

    def __call__(self, snapshot: Snapshot) -> dict[str, float]:
        row: dict[str, float] = {}
        for split in snapshot.splits:
            predictions = snapshot.predictions(split)
            values = (
                mean_margin(predictions),
                min_margin(predictions),
                log_margin_moment(predictions),
                *margin_quantiles(predictions, levels=list(_LEVELS.values())),
            )
            row |= keyed(split, self.quantities, values)
        return row
