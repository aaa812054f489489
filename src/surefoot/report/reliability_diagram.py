"""The reliability diagram of predictions, in one call."""

from pathlib import Path
from typing import TYPE_CHECKING

from surefoot.files import write_atomically
from surefoot.report.reliability import reliability_figure

if TYPE_CHECKING:
    from surefoot.predictions import ArrayLike, Predictions


def reliability_diagram(
    logits: "Predictions | ArrayLike | None" = None,
    labels: "ArrayLike | None" = None,
    *,
    probabilities: "ArrayLike | None" = None,
    path: Path | str | None = None,
    num_bins: int = 15,
    level: float = 0.95,
) -> str:
    """Draw accuracy against confidence, with the histogram of confidences beside it. Needs the extra `report`.

    Args:
        logits: Pre-softmax scores [N, K], or `Predictions`.
        labels: True classes [N], from 0; not with `Predictions`.
        probabilities: Probabilities [N, K], in the place of logits.
        path: Where to write the diagram too, ending in .svg.
        num_bins: Number of equal-width bins of the confidence.
        level: Confidence level of the intervals.

    Returns:
        The diagram as SVG.
    """
    from surefoot.metrics import interval, reliability
    from surefoot.predictions import Predictions
    from surefoot.report.page import check_extra

    check_extra()
    if path is not None and Path(path).suffix != ".svg":
        raise ValueError(f"`path` must end in .svg, got {path}.")
    predictions = Predictions.of(logits, labels, probabilities=probabilities)
    bins = reliability(predictions, num_bins=num_bins, level=level)
    ece = interval("ece", predictions, num_bins=num_bins, level=level)
    svg = reliability_figure(bins, title=f"ECE {ece}, n = {predictions.num_samples:,}")
    if path is not None:
        write_atomically(Path(path), svg.encode())
    return svg
