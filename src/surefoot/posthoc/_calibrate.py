"""Post-hoc calibration in one call: fit, choose, and show what it does."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from surefoot.argument_error import ArgumentError
from surefoot.metric import meaning_of
from surefoot.metrics import Evaluation, evaluate
from surefoot.posthoc._cross_fitted import cross_fitted
from surefoot.posthoc.choice import NOTHING, Choice, calibrated, choose
from surefoot.posthoc.map import Fit, Map
from surefoot.posthoc.temperature import Temperature
from surefoot.predictions import Predictions
from surefoot.registry import look_up
from surefoot.table import Table

if TYPE_CHECKING:
    from surefoot.predictions import ArrayLike

    Labelled = Predictions | tuple[ArrayLike, ArrayLike]

AUTO = ("temperature", "ensemble_temperature", "svs", "isotonic")  # few and many parameters, with and without bins
_SHOWN = ("accuracy", "nll", "brier", "ece", "ada_ece", "classwise_ece")


@dataclass(frozen=True, repr=False)
class Calibration:
    """A fitted calibrator, why it was chosen, and metrics before and after it. Prints as two tables.

    `calibrator(logits)` returns calibrated logits; `calibrator.save(path)` keeps it for `surefoot.load`.
    """

    calibrator: Map
    chosen: str  # the calibrator's name; "none" where doing nothing is best, and the calibrator is the identity
    choice: Choice  # the candidates with their held-out NLL
    before: Evaluation
    after: Evaluation | None  # None where no samples are left that the calibrator was not fitted on
    measured_on: str  # which samples `before` and `after` are about

    def __str__(self) -> str:
        return f"{self.candidate_table().text()}\n\n{self.table().text()}"

    __repr__ = __str__

    def candidate_table(self) -> Table:
        """The candidates with their NLL on held-out validation samples, by which one was chosen."""
        rows: list[tuple[str, str, str]] = [(NOTHING, "-", _shown(self.choice.nll_before))]
        rows += [(each.name, each.fit_text, _shown(each.held_out_nll)) for each in self.choice.fitted]
        marked = tuple((name + (" *" if name == self.chosen else ""), fit, score) for name, fit, score in rows)
        notes = tuple(f"{each.name}: not fitted: {each.error}" for each in self.choice.candidates if each.error)
        note = "* chosen: the least NLL on a held-out fifth of the validation samples."
        if self.chosen != self.choice.picked:
            note = f"* asked for; {self.choice.picked} has the least NLL on a held-out fifth of the validation samples."
        return Table("candidates", "Candidates", ("method", "fitted", "held-out NLL"), marked, (note, *notes))

    def table(self) -> Table:
        """Metrics before and after, with intervals."""
        after = None if self.after is None else self.after.metrics
        rows = tuple(
            (name, str(self.before.metrics[name]), "-" if after is None else str(after[name]), meaning_of(name))
            for name in _SHOWN
        )
        title = (
            f"Before and after {self.chosen}, {100 * self.before.level:g} % intervals, n = {self.before.num_samples:,}"
        )
        return Table(
            "calibration",
            title,
            ("metric", "before", "after", "what it is"),
            rows,
            (f"Measured on {self.measured_on}.",),
        )


def calibrate(
    validation: "Labelled",
    *,
    method: str | Sequence[str] = "auto",
    test: "Labelled | None" = None,
    num_bins: int = 15,
    level: float = 0.95,
) -> Calibration:
    """Fit a post-hoc calibrator on validation predictions, and measure what it does.

    Args:
        validation: Predictions on samples that the model was not trained on: `Predictions`, or logits and labels.
        method: A post-hoc map by name, several names, "all", or "auto": the best of a few, or none, by NLL on held-out
            validation samples.
        test: Predictions to measure on, which have no say in the choice; without them every validation sample is
            calibrated by a fit on the others.
        num_bins: Number of bins of the binned errors.
        level: Confidence level of the intervals.

    Returns:
        The calibration, which prints as tables; its `calibrator` maps logits to calibrated logits.

    >>> import torch
    >>> sure = Predictions(torch.tensor([[4.0, 0.0]] * 400), torch.tensor([0, 0, 0, 1] * 100))
    >>> result = calibrate(sure, method="temperature")
    >>> result.chosen, round(result.calibrator.temperature, 2), str(result.after.metrics["ece"])[:6]
    ('temperature', 3.64, '0.0000')
    """
    fitting = _predictions(validation)
    measured = None if test is None else _predictions(test)
    if measured is not None and measured.num_classes != fitting.num_classes:
        raise ArgumentError(
            f"`test` must have {fitting.num_classes} classes like `validation`, got {measured.num_classes}.",
            "test",
            "validation",
        )
    choice = choose(fitting, kinds_of(method))
    best = choice.best
    calibrator, chosen = best.calibrator, best.name
    assert calibrator is not None  # `best` is among the fitted ones
    if method == "auto" and choice.picked == NOTHING:
        fitted = Fit(fitting.num_samples, fitting.num_classes, converged=True, certificate=0.0, num_steps=0)
        calibrator, chosen = Temperature(1.0, fitted=fitted), NOTHING
    before = evaluate(fitting if measured is None else measured, num_bins=num_bins, level=level)
    measured_on, mapped = _mapped(fitting, measured, calibrator, chosen)
    after: Evaluation | None = before
    if chosen != NOTHING:
        after = None if mapped is None else evaluate(mapped, num_bins=num_bins, level=level)
    return Calibration(calibrator, chosen, choice, before, after, measured_on)


def kinds_of(method: str | Sequence[str]) -> dict[str, type[Map]]:
    """The kinds of maps that `method` names, by name; "all" is every one of them, "auto" a few."""
    from surefoot.posthoc import POSTHOC  # the table imports every map

    names = [method] if isinstance(method, str) else list(dict.fromkeys(method))
    if not names:
        raise ArgumentError("`method` must name at least one method.", "method")
    for name in names:
        look_up("method", name, {**POSTHOC, "all": None, "auto": None})
    chosen = (
        list(POSTHOC) if "all" in names else [each for name in names for each in (AUTO if name == "auto" else (name,))]
    )
    return {name: POSTHOC[name] for name in chosen}


def _mapped(
    fitting: Predictions, measured: Predictions | None, calibrator: Map, chosen: str
) -> tuple[str, Predictions | None]:
    if measured is not None:
        return f"{measured.num_samples:,} test samples", calibrated(calibrator, measured)
    samples = f"{fitting.num_samples:,} validation samples"
    if chosen == NOTHING:
        return samples, fitting
    try:
        folds = min(5, fitting.num_samples)
        crossed = cross_fitted(type(calibrator), fitting.floored(), num_folds=folds)
    except ValueError as error:
        return f"{samples}; not after calibration, because a part of them has no fit ({error}): give `test`", None
    return f"{samples}, each calibrated by a fit on the others ({folds} folds)", crossed


def _predictions(labelled: "Labelled") -> Predictions:
    return Predictions.of(*labelled) if isinstance(labelled, tuple) else Predictions.of(labelled)


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
