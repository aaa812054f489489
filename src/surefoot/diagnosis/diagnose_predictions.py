"""The diagnosis of predictions, in one call."""

from typing import TYPE_CHECKING

from surefoot.diagnosis.diagnosis import Diagnosis
from surefoot.diagnosis.diagnosis import diagnose as apply_rules
from surefoot.diagnosis.measuring import prediction_facts
from surefoot.predictions import Predictions

if TYPE_CHECKING:
    from surefoot.predictions import ArrayLike


def diagnose(
    logits: "Predictions | ArrayLike | None" = None,
    labels: "ArrayLike | None" = None,
    *,
    probabilities: "ArrayLike | None" = None,
    validation: "Predictions | tuple[ArrayLike, ArrayLike] | None" = None,
    subject: str = "predictions",
) -> Diagnosis:
    """Report in sentences how confident and how accurate a classifier is, where it is miscalibrated, and what to try.

    Args:
        logits: Pre-softmax scores [N, K] of test samples, or `Predictions`.
        labels: True classes [N], from 0; not with `Predictions`.
        probabilities: Probabilities [N, K], in the place of logits.
        validation: Predictions to fit a temperature on; without them it is cross-fitted on the predictions.
        subject: What sentences call the predictions, for example a file's name.

    Returns:
        The diagnosis, which prints as sentences.
    """
    predictions = Predictions.of(logits, labels, probabilities=probabilities)
    if validation is not None:
        validation = Predictions.of(*validation) if isinstance(validation, tuple) else Predictions.of(validation)
    return apply_rules(prediction_facts(predictions, subject=subject, validation=validation))
