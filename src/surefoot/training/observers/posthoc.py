"""What post-hoc maps would make of the model as it is."""

import math

from surefoot.metrics import ece, nll
from surefoot.posthoc import POSTHOC, Map
from surefoot.predictions import Predictions
from surefoot.registry import look_up
from surefoot.training.observers.observer import Stateless
from surefoot.training.snapshot import Snapshot


class PosthocObserver(Stateless):
    """ECE and NLL of the test split after each of some maps, fitted on the validation split at that moment.

    `test/ece_temperature` is what papers call TCE, with the temperature that is best by NLL. Needs a validation split.
    Not a number at moments at which a map has no fit: a temperature has none where the model is worse than chance, as
    before the first step, or where no sample is wrong.
    """

    needs_validation = True

    def __init__(self, *, maps: tuple[str, ...] = ("temperature",)) -> None:
        if not maps:
            raise ValueError("`maps` must name at least one post-hoc map, got none.")
        self._maps = {name: look_up("post-hoc map", name, POSTHOC) for name in maps}
        self.quantities: tuple[str, ...] = tuple(f"{score}_{name}" for name in self._maps for score in ("ece", "nll"))

    def __call__(self, snapshot: Snapshot) -> dict[str, float]:
        if "validation" not in snapshot.splits:
            raise ValueError(
                "The observer `posthoc` fits its maps on a validation split, and the data has none: "
                "set `data.num_validation`."
            )
        validation, test = snapshot.predictions("validation"), snapshot.predictions("test")
        row: dict[str, float] = {}
        for name, kind in self._maps.items():
            fitted = fit_of(kind, validation)
            mapped = None if fitted is None else Predictions(fitted(test.exact), test.labels)
            for score, metric in (("ece", ece), ("nll", nll)):
                row[f"test/{score}_{name}"] = math.nan if mapped is None else float(metric(mapped))
        return row


def fit_of(kind: type[Map], predictions: Predictions) -> Map | None:
    """The map of that kind that suits the predictions best; None where they have no such map."""
    try:
        return kind.fit(predictions)
    except ValueError:
        return None
