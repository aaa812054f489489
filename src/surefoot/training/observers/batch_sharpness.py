"""Curvature along mini-batch gradients of the training set."""

from surefoot.curvature import batch_sharpness
from surefoot.losses import loss_within
from surefoot.training.observers.observer import Stateless, keyed
from surefoot.training.snapshot import Diverged, Snapshot


class BatchSharpnessObserver(Stateless):
    """Batch sharpness of the training set with its standard error, over random batches that depend on the step alone.

    Stops at `relative_error` or after `max_draws` batches; each costs a gradient of the batch and a product. Needs an
    objective that is a loss of logits.
    """

    needs_curvature = True  # of a loss of logits
    quantities: tuple[str, ...] = ("batch_sharpness", "batch_sharpness_error")

    def __init__(
        self, *, batch_size: int = 50, relative_error: float = 0.05, max_draws: int = 40, seed: int = 0
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"`batch_size` must be at least 1, got {batch_size}.")
        if not relative_error > 0:
            raise ValueError(f"`relative_error` must be positive, got {relative_error}.")
        if max_draws < 10:
            raise ValueError(f"`max_draws` must be at least 10, got {max_draws}.")
        self.batch_size = batch_size
        self.relative_error = relative_error
        self.max_draws = max_draws
        self.seed = seed

    def __call__(self, snapshot: Snapshot) -> dict[str, float]:
        loss = loss_within(snapshot.objective)
        if loss is None:
            raise ValueError("The batch sharpness observer needs an objective that is a loss of logits and labels.")
        split = snapshot.splits["train"]
        try:
            estimate = batch_sharpness(
                snapshot.model,
                loss,
                split.inputs,
                split.labels,
                batch_size=min(self.batch_size, len(split.labels)),
                relative_error=self.relative_error,
                max_draws=self.max_draws,
                seed=1_000_003 * self.seed + snapshot.step,
            )
        except FloatingPointError as error:
            raise Diverged(f"batch sharpness at step {snapshot.step}: {error}") from None
        return keyed("train", self.quantities, (estimate.value, estimate.standard_error))
