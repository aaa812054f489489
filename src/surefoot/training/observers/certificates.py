"""What the margins prove, along training."""

import math
from typing import Any

from surefoot.eval_mode import evaluating
from surefoot.losses import CrossEntropy, loss_within
from surefoot.theory import calibration_certificates, curvature_certificates, exact_predictions, sample_curvature, tail
from surefoot.training.observers._trackers import Trackers
from surefoot.training.observers.observer import keyed
from surefoot.training.snapshot import Snapshot

BOUNDS = {
    "bound_ece": "4.1 (i): ECE <= (K - 1) Q",
    "bound_ece_ours": "ours: ECE <= mean (1 - p_y)",
    "bound_sharpness": "4.1 (ii): sharpness <= 2 C_J^2 (K - 1) Q",
    "bound_sharpness_free": "B.6: sharpness <= 2 C_J^2 (K - 1) mean exp(-predicted margin)",
    "bound_sharpness_ours": "ours: sharpness <= mean sharpness of one sample",
}


class CertificatesObserver:
    """Bounds on ECE and Gauss-Newton sharpness beside the measured values, the constants and the tail behind them.

    `failed` counts inequalities that do not hold, which must be 0; `interpolating` is 1 where every sample is right.
    `c_j` is the largest ||J_i||, `tail_share_*` the share of Q from the worst 1, 5 and 10 % of the samples. The
    sharpness is measured by a tracker of its own that stops on its residual. Only for cross-entropy.
    """

    needs_curvature = True  # of a loss of logits
    quantities: tuple[str, ...] = (
        "certified_ece",
        "certified_sharpness",
        *BOUNDS,
        "c_j",
        "jacobian_rms",
        "tail_share_01",
        "tail_share_05",
        "tail_share_10",
        "interpolating",
        "failed",
    )

    def __init__(self, *, tolerance: float = 0.02, budget: float = 20.0, seed: int = 0) -> None:
        self._trackers = Trackers(tolerance=tolerance, stop="residual", budget=budget, seed=seed)

    def __call__(self, snapshot: Snapshot) -> dict[str, float]:
        loss = loss_within(snapshot.objective)
        if not isinstance(loss, CrossEntropy):
            raise ValueError("The certificates are about cross-entropy: leave the observer out, or use that loss.")
        row: dict[str, float] = {}
        for name, split in snapshot.splits.items():
            snapshot.logits(name)  # Diverged where they are not finite
            predictions = exact_predictions(snapshot.model, split.inputs, split.labels)
            sharpness = self._trackers.measure(snapshot, name, loss)
            with evaluating(snapshot.model):
                samples = sample_curvature(snapshot.model, split.inputs)
            calibration = calibration_certificates(predictions)
            every = [*calibration, *curvature_certificates(predictions, samples, sharpness.value)]
            bounds = {item.name: item.bound for item in every}
            margins = tail(predictions.margin)
            values = (
                calibration[0].measured,
                sharpness.value,
                *(bounds[key] for key in BOUNDS.values()),
                float(samples.norms.max()),
                math.sqrt(float(samples.norms.square().mean())),
                *margins.shares.values(),
                margins.interpolating,
                sum(item.verdict == "fails" for item in every),
            )
            row |= keyed(name, self.quantities, values)
        return row

    def state_dict(self) -> dict[str, Any]:
        """The trackers' states."""
        return self._trackers.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self._trackers.load_state_dict(state)
