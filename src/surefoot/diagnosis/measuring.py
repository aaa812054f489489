"""The facts for a diagnosis where predictions are at hand, from a file or a run's weights."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from surefoot.diagnosis.facts import Facts, Repair
    from surefoot.predictions import Predictions
    from surefoot.runs.folder import RunFolder

MAP = "temperature"


def file_facts(predictions: "Predictions", *, subject: str, validation: "Predictions | None" = None) -> "Facts":
    """The profile of predictions on test samples, and what a temperature does to them."""
    from surefoot.diagnosis.facts import Facts
    from surefoot.diagnosis.profiling import profile

    fixed = repair(predictions, *after_map(predictions, validation=validation))
    return Facts(subject, test=profile(predictions), repair=fixed)


def repair(
    predictions: "Predictions", mapped: "Predictions | None", how: str, *, num_bins: int = 15, level: float = 0.95
) -> "Repair | None":
    """The ECE before and after a map; None where there is none."""
    from surefoot.diagnosis.facts import Repair
    from surefoot.metrics._intervals import interval

    if mapped is None:
        return None
    before, after = (interval("ece", each, num_bins=num_bins, level=level) for each in (predictions, mapped))
    return Repair(MAP, (before.value, before.low, before.high), (after.value, after.low, after.high), how)


def after_map(
    predictions: "Predictions", *, validation: "Predictions | None" = None
) -> "tuple[Predictions | None, str]":
    """The predictions after a temperature, with how it was fitted; None and the reason where there is none."""
    from surefoot.posthoc import Temperature
    from surefoot.posthoc.crossfit import cross_fitted
    from surefoot.predictions import Predictions

    try:
        if validation is not None:
            fitted = Temperature.fit(validation)
            how = f"fitted on {validation.num_samples:,} validation samples (T = {fitted.temperature:.3g})"
            return Predictions(fitted(predictions.exact), predictions.labels), how
        folds = 5 if predictions.num_samples >= 10 else 2
        return cross_fitted(
            Temperature, predictions, num_folds=folds
        ), "cross-fitted, each part of the samples mapped by the fit on the others"
    except ValueError as error:
        return None, str(error)


def weights_facts(facts: "Facts", folder: "RunFolder") -> "tuple[Facts, str]":
    """The facts of a run with the profiles of its last weights, where it has them, and a note where it has not."""
    if not Path(folder.checkpoint).exists():
        return facts, f"{folder.path} holds no weights: classes and samples cannot be named."
    from surefoot.diagnosis.profiling import profile
    from surefoot.runs.restored_training import restored_training
    from surefoot.training.snapshot import Diverged, Snapshot

    try:
        training, _ = restored_training(folder.path)
        snapshot = Snapshot(training.step, training.model, training.objective, training.splits)
        held = {split: snapshot.predictions(split) for split in training.splits}
    except (OSError, ValueError, Diverged) as error:
        return facts, f"The weights cannot be looked at: {error}"
    test, train = (profile(held[split], split=split) for split in ("test", "train"))
    fixed = repair(held["test"], *after_map(held["test"], validation=held.get("validation")))
    return replace(facts, test=test, train=train, repair=fixed), ""
