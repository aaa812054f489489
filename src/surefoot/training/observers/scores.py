"""The wider set of scores by which training methods are compared."""

import math

from surefoot.metrics import ada_ece, auroc_correct, brier, classwise_ece, debiased_rms_ce, entropy
from surefoot.training.observers.observer import Stateless, keyed
from surefoot.training.snapshot import Snapshot


class ScoresObserver(Stateless):
    """Classwise and adaptive ECE, debiased RMS calibration error, Brier, mean entropy, AUROC of right against wrong.

    The last is left empty where all samples are right, as training samples may be, or all wrong. Shares the forward
    pass.
    """

    quantities: tuple[str, ...] = (
        "classwise_ece",
        "ada_ece",
        "debiased_rms_ce",
        "brier",
        "entropy",
        "auroc_correct",
    )

    def __init__(self, *, num_bins: int = 15) -> None:
        if num_bins < 1:
            raise ValueError(f"`num_bins` must be at least 1, got {num_bins}.")
        self.num_bins = num_bins

    def __call__(self, snapshot: Snapshot) -> dict[str, float]:
        row: dict[str, float] = {}
        for split in snapshot.splits:
            predictions = snapshot.predictions(split)
            values = (
                classwise_ece(predictions, num_bins=self.num_bins),
                ada_ece(predictions, num_bins=self.num_bins),
                debiased_rms_ce(predictions, num_bins=self.num_bins),
                brier(predictions),
                entropy(predictions),
                auroc_correct(predictions)
                if 0 < int(predictions.correct.sum()) < predictions.num_samples
                else math.nan,
            )
            row |= keyed(split, self.quantities, values)
        return row
