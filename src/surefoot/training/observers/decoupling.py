"""What margins alone do to calibration, at weights of one curvature."""

from surefoot.losses import loss_within
from surefoot.metrics import ece, mean_margin, nll
from surefoot.theory.rescaling import decoupled, linear_layers
from surefoot.training.observers.observer import Stateless, keyed
from surefoot.training.snapshot import Snapshot


class DecouplingObserver(Stateless):
    """Scores at the end of training of copies with other margins and the same GN sharpness, under `times-FACTOR/...`.

    A copy's logits, and so its margins, are `factors` times as large; the balance of its first two layers is chosen so
    that the sharpness of the training loss is as before: see `surefoot.theory.decoupled`. `sharpness` is its ratio to
    what it was and `same` whether that is 1 within `tolerance`. Only for linear layers with ReLU between them.
    """

    needs_curvature = True  # of a loss of logits
    quantities: tuple[str, ...] = (
        *(f"{split}_{name}" for split in ("train", "test") for name in ("ece", "nll", "margin")),
        *("sharpness", "balance", "same"),
    )

    def __init__(
        self, *, factors: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0), tolerance: float = 0.01, num_bins: int = 15
    ) -> None:
        for factor in factors:
            if not factor > 0:
                raise ValueError(f"`factors` must be positive, got {factor}.")
        if not 0 < tolerance < 1:
            raise ValueError(f"`tolerance` must lie between 0 and 1, got {tolerance}.")
        self.factors, self.tolerance, self.num_bins = factors, tolerance, num_bins

    def __call__(self, snapshot: Snapshot) -> dict[str, float]:
        linear_layers(snapshot.model)  # refuses at the first look, not at the last
        loss = loss_within(snapshot.objective)
        if loss is None:
            raise ValueError("The observer `decoupling` needs an objective that is a loss of logits and labels.")
        if not snapshot.last:
            return {}
        train = snapshot.splits["train"]
        row: dict[str, float] = {}
        for factor in self.factors:
            copy = decoupled(snapshot.model, loss, train.inputs, train.labels, logits=factor, tolerance=self.tolerance)
            of_copy = Snapshot(snapshot.step, copy.model, snapshot.objective, snapshot.splits, snapshot.process_group)
            values: list[float] = []
            for split in ("train", "test"):
                predictions = of_copy.predictions(split)
                values += [
                    float(ece(predictions, num_bins=self.num_bins)),
                    float(nll(predictions)),
                    float(mean_margin(predictions)),
                ]
            row |= keyed(f"times-{factor:g}", self.quantities, [*values, copy.ratio, copy.balance, copy.same])
        return row
