"""The choice between post-hoc maps: by NLL on held-out validation samples, doing nothing among them."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch

from surefoot.argument_error import ArgumentError
from surefoot.metrics import nll
from surefoot.posthoc.map import Map
from surefoot.predictions import Predictions

NOTHING = "none"  # the name of leaving predictions as they are
_HELD_OUT = 5  # one sample in so many


@dataclass(frozen=True)
class Candidate:
    """A kind of map fitted on all validation samples, and how it does on some that it was not fitted on."""

    name: str
    calibrator: Map | None  # None where it has no fit
    held_out_nll: float | None  # None where it is infinite, or where there is no fit without the held-out samples
    error: str = ""  # why there is no fit

    @property
    def fit_text(self) -> str:
        """The fit as tables show it: its temperature where it has one, and whether it converged."""
        if self.calibrator is None or not self.calibrator.fitted.converged:
            return "not fitted" if self.calibrator is None else "not converged"
        temperature = self.calibrator.parameters.get("temperature")
        return "yes" if temperature is None else f"T = {temperature:.4g}"


@dataclass(frozen=True)
class Choice:
    """Candidates in the order given, and the NLL of doing nothing on the same held-out samples."""

    candidates: tuple[Candidate, ...]
    nll_before: float | None

    @property
    def fitted(self) -> tuple[Candidate, ...]:
        """The candidates that have a fit."""
        return tuple(each for each in self.candidates if each.calibrator is not None)

    @property
    def best(self) -> Candidate:
        """The candidate with a fit and the least held-out NLL; the first one where none has an NLL."""
        return min(self.fitted, key=lambda each: math.inf if each.held_out_nll is None else each.held_out_nll)

    @property
    def picked(self) -> str:
        """The name of what has the least held-out NLL, "none" where that is doing nothing."""
        least = {NOTHING: self.nll_before} | {each.name: each.held_out_nll for each in self.candidates}
        scores = {name: score for name, score in least.items() if score is not None}
        return min(scores, key=scores.__getitem__, default=NOTHING)


def choose(
    validation: Predictions,
    kinds: Mapping[str, type[Map]],
    *,
    source: str = "",
    on_method: Callable[[str], None] = lambda name: None,
) -> Choice:
    """Fit maps of several kinds, and score each on a fifth of the samples that it is then not fitted on.

    Args:
        validation: What to fit on.
        kinds: The kinds of maps by name.
        source: What the fitted maps say that they were fitted on, for example a file's name.
        on_method: Called with each name before its map is fitted.

    Raises:
        ValueError: Where no sample is wrong, or no map has a fit.
    """
    check_some_wrong(validation)
    order = torch.randperm(validation.num_samples, generator=torch.Generator().manual_seed(0))
    cut = max(1, validation.num_samples // _HELD_OUT)
    readable = validation.floored()
    rest, held_out = readable[order[cut:]], readable[order[:cut]]
    candidates = []
    for name, kind in kinds.items():
        on_method(name)
        try:
            calibrator = kind.fit(readable)
        except ValueError as error:
            candidates.append(Candidate(name, None, None, str(error)))
            continue
        calibrator = replace(calibrator, fitted=replace(calibrator.fitted, source=source))
        candidates.append(Candidate(name, calibrator, _held_out_nll(kind, rest, held_out)))
    choice = Choice(tuple(candidates), _finite_nll(validation[order[:cut]]))
    if not choice.fitted:
        reasons = "; ".join(f"{each.name}: {each.error.rstrip('.')}" for each in candidates)
        raise ArgumentError(f"No map could be fitted on `validation`. {reasons}.", "validation")
    return choice


def check_some_wrong(validation: Predictions) -> None:
    """Raise ValueError where no sample is wrong: any map that raises the confidence then lowers the NLL."""
    if bool(validation.correct.all()):
        raise ArgumentError(
            "No sample of `validation` is wrong, so it cannot say how sure to be: "
            "give samples that the model was not trained on.",
            "validation",
        )


def calibrated(calibrator: Map, predictions: Predictions) -> Predictions:
    """The predictions after a map."""
    readable = predictions.floored()
    return Predictions(calibrator(readable.exact), readable.labels)


def _held_out_nll(kind: type[Map], rest: Predictions, held_out: Predictions) -> float | None:
    try:
        return _finite_nll(calibrated(kind.fit(rest), held_out))
    except ValueError:
        return None


def _finite_nll(predictions: Predictions) -> float | None:
    value = float(nll(predictions))
    return value if math.isfinite(value) else None
