"""Margins that no small shift of the input takes away, along training."""

import math

from surefoot.attack import Norm
from surefoot.eval_mode import evaluating
from surefoot.registry import look_up
from surefoot.theory import ece_by_decile, exact_predictions, robust_calibration_certificates, robust_margins
from surefoot.theory.lipschitz import DUALS
from surefoot.training.observers.observer import Stateless, keyed
from surefoot.training.snapshot import Snapshot

_MOMENTS = {  # quantity -> name among the moments
    "log_robust_moment": "Q0 attacked",
    "log_robust_moment_proved": "Q0 proved",
    "log_robust_moment_minus": "Q-",
    "log_robust_moment_plus": "Q+",
}
DECILES = tuple(f"ece_decile_{number:02d}" for number in range(1, 11))


class RobustMarginsObserver(Stateless):
    """Robust margins within `radius` by an attack of `num_steps` steps, and from below where the network allows it.

    The logs of Q0 (attacked, and proved), Q- and Q+; the largest L_m; the smallest robust margin; |confidence -
    accuracy| by decile of the robust margin, the least robust first; and how many inequalities fail, which must be 0.
    What is not known of a network (attack only: not a proof) is left empty. Costs K + 2 `num_steps` gradients in the
    inputs.
    """

    quantities: tuple[str, ...] = (
        *_MOMENTS,
        "margin_lipschitz",
        "robust_margin_min",
        *DECILES,
        "robust_failed",
    )

    def __init__(self, *, radius: float = 0.1, norm: Norm = "l2", num_steps: int = 10) -> None:
        if not 0 <= radius < math.inf:
            raise ValueError(f"`radius` must be at least 0 and finite, got {radius}.")
        if num_steps < 0:
            raise ValueError(f"`num_steps` must be at least 0, got {num_steps}.")
        look_up("norm", norm, DUALS)
        self._radius, self._norm, self._num_steps = radius, norm, num_steps

    def __call__(self, snapshot: Snapshot) -> dict[str, float]:
        row: dict[str, float] = {}
        for name, split in snapshot.splits.items():
            with evaluating(snapshot.model):
                snapshot.logits(name)  # Diverged where they are not finite
                predictions = exact_predictions(snapshot.model, split.inputs, split.labels)
                margins = robust_margins(
                    snapshot.model,
                    split.inputs,
                    split.labels,
                    radius=self._radius,
                    norm=self._norm,
                    num_steps=self._num_steps,
                )
            attacked = margins.attacked
            every = robust_calibration_certificates(
                predictions, attacked, radius=self._radius, floor=margins.floor, lipschitz=margins.lipschitz
            )
            moments = margins.log_moments
            gaps = [gap for _, gap in ece_by_decile(predictions, attacked)]
            values = (
                *(moments.get(key, math.nan) for key in _MOMENTS.values()),
                math.nan if margins.lipschitz is None else float(margins.lipschitz.max()),
                float(attacked.min()),
                *(gaps + [math.nan] * len(DECILES))[: len(DECILES)],
                sum(item.verdict == "fails" for item in every),
            )
            row |= keyed(name, self.quantities, values)
        return row
