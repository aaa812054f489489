"""Loss, accuracy and calibration of every split."""

from surefoot.metrics import accuracy, ece, kce, mean_confidence, nll
from surefoot.training.observers.observer import Stateless, keyed
from surefoot.training.snapshot import Snapshot


class CalibrationObserver(Stateless):
    """Mean objective, NLL, accuracy, confidence, ECE and KCE. Costs one forward pass per split."""

    quantities: tuple[str, ...] = ("loss", "nll", "accuracy", "confidence", "ece", "kce")

    def __init__(self, *, num_bins: int = 15, nu: float = 0.2) -> None:
        if num_bins < 1:
            raise ValueError(f"`num_bins` must be at least 1, got {num_bins}.")
        if not nu > 0:
            raise ValueError(f"`nu` must be positive, got {nu}.")
        self.num_bins = num_bins
        self.nu = nu

    def __call__(self, snapshot: Snapshot) -> dict[str, float]:
        row: dict[str, float] = {}
        for split in snapshot.splits:
            predictions = snapshot.predictions(split)
            values = (
                snapshot.loss(split),
                nll(predictions),
                accuracy(predictions),
                mean_confidence(predictions),
                ece(predictions, num_bins=self.num_bins),
                kce(predictions, nu=self.nu),
            )
            row |= keyed(split, self.quantities, values)
        return row
