"""The facts for a diagnosis where predictions are at hand, from a file or a run's weights."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surefoot.diagnosis.facts import Facts, Repair
    from surefoot.diagnosis.profile import Profile
    from surefoot.metrics import Evaluation, Interval
    from surefoot.predictions import Predictions
    from surefoot.runs.folder import RunFolder


@dataclass(frozen=True)
class TemperatureScaled:
    """Predictions after temperature scaling, by a temperature that was fitted on other samples."""

    predictions: "Predictions | None"  # None where there is no best temperature
    how: str  # how the temperature was fitted, or why there is none
    metrics: "dict[str, Interval]"  # of the predictions after scaling


def prediction_facts(
    predictions: "Predictions",
    *,
    subject: str,
    validation: "Predictions | None" = None,
    evaluation: "Evaluation | None" = None,
    scaled: TemperatureScaled | None = None,
) -> "Facts":
    """The facts about predictions on test samples: their profile, and what temperature scaling does to their ECE.

    Args:
        predictions: The predictions to diagnose.
        subject: What sentences call them, for example a file's name.
        validation: Predictions to fit the temperature on; without them it is cross-fitted on `predictions`.
        evaluation: The evaluation of `predictions`, where there is one already: nothing is measured twice.
        scaled: The predictions after temperature scaling, where they are at hand.
    """
    from surefoot.diagnosis.facts import Facts
    from surefoot.diagnosis.profiling import profile

    test = profile(predictions, evaluation=evaluation)
    return Facts(subject, test=test, repair=_repair(test, scaled or temperature_scaled(predictions, validation)))


def temperature_scaled(
    predictions: "Predictions",
    validation: "Predictions | None" = None,
    *,
    metrics: "Sequence[str]" = ("ece",),
    num_bins: int = 15,
    level: float = 0.95,
) -> TemperatureScaled:
    """Scale predictions by a temperature, and measure them again.

    Args:
        predictions: What to scale.
        validation: Predictions to fit the temperature on; without them it is cross-fitted on `predictions`.
        metrics: Names of the metrics to measure after scaling.
        num_bins: Number of bins of the binned errors.
        level: Confidence level of the intervals.
    """
    from surefoot.metrics import intervals
    from surefoot.posthoc import Temperature, cross_fitted
    from surefoot.predictions import Predictions

    readable = predictions.floored()
    try:
        if validation is not None:
            fitted = Temperature.fit(validation.floored())
            how = f"fitted on {validation.num_samples:,} validation samples (T = {fitted.temperature:.3g})"
            after = Predictions(fitted(readable.exact), readable.labels)
        else:
            how = "cross-fitted, each part of the samples mapped by the fit on the others"
            after = cross_fitted(Temperature, readable, num_folds=5 if readable.num_samples >= 10 else 2)
    except ValueError as error:
        return TemperatureScaled(None, str(error), {})
    return TemperatureScaled(after, how, intervals(after, metrics, level=level, num_bins=num_bins))


def run_weights_facts(facts: "Facts", folder: "RunFolder") -> "tuple[Facts, str]":
    """The facts of a run with the profiles of its last weights, where it has them, and a note where it has not.

    Args:
        facts: The facts in what the run measured.
        folder: The run's folder.
    """
    if not Path(folder.checkpoint).exists():
        return facts, f"{folder.path} holds no weights: classes and samples cannot be named."
    from surefoot.diagnosis.profiling import profile
    from surefoot.runs.restored_training import restored_training
    from surefoot.training.snapshot import Diverged, Snapshot

    try:
        training, _ = restored_training(folder.path)
        snapshot = Snapshot(training.step, training.model, training.objective, training.splits)
        predictions = {split: snapshot.predictions(split) for split in training.splits}
    except (OSError, ValueError, Diverged) as error:
        return facts, f"The weights cannot be evaluated: {error}"
    test, train = (profile(predictions[split], split=split) for split in ("test", "train"))
    scaled = temperature_scaled(predictions["test"], predictions.get("validation"))
    return replace(facts, test=test, train=train, repair=_repair(test, scaled)), ""


def _repair(test: "Profile", scaled: TemperatureScaled) -> "Repair | None":
    from surefoot.diagnosis.facts import Repair

    if scaled.predictions is None or test.ece_limits is None:
        return None
    after = scaled.metrics["ece"]
    return Repair("temperature", (test.ece, *test.ece_limits), (after.value, after.low, after.high), scaled.how)
