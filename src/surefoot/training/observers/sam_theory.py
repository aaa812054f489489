"""What SAM's perturbation is proved to do, along training."""

import math
from typing import Any

from torch import Tensor

from surefoot.eval_mode import evaluating
from surefoot.losses import CrossEntropy, loss_within
from surefoot.theory import Verdict, sam_certificates
from surefoot.training.observers.observer import Stateless, keyed
from surefoot.training.snapshot import Diverged, Snapshot

_CODES: dict[Verdict, float] = {"holds": 1.0, "assumption not met": 0.0, "fails": -1.0}


def straightness(places: Tensor, values: Tensor) -> float:
    """R^2 of the straight line of least squares through values at places; not a number where they do not vary.

    >>> straightness(Tensor([0.0, 0.5, 1.0]), Tensor([3.0, 2.0, 1.0]))
    1.0
    """
    x, y = (each.double().cpu() - each.double().cpu().mean() for each in (places, values))
    spread = float(x.square().sum() * y.square().sum())
    return float((x * y).sum()) ** 2 / spread if spread > 0 else math.nan


class SamTheoryObserver(Stateless):
    """A climb of radius `rho` on the first `num_samples` training samples: curvature on its path, and the verdicts.

    `sam_kappa_min` is the smallest Hessian eigenvalue at `num_points` points of the path (an upper bound of it),
    `sam_kappa_floor` what is proved from below, `sam_directional` the least curvature along the gradient, each to be
    compared with `sam_threshold` = -||g|| / rho. `sam_kappa_start` and `sam_kappa_end` are the eigenvalue where the
    path starts and ends, `sam_kappa_line` the share of its variance on the path that a straight line explains,
    `sam_lowered` the share of the samples whose probability of the label is lower where it ends.
    Verdicts are 1 (holds), 0 (assumption not met) and -1 (fails). `moving` takes samples further on at each step, one
    place for one step. Only for cross-entropy.
    """

    needs_curvature = True  # of a loss of logits
    quantities: tuple[str, ...] = (
        "sam_kappa_min",
        "sam_kappa_floor",
        "sam_kappa_start",
        "sam_kappa_end",
        "sam_kappa_line",
        "sam_directional",
        "sam_threshold",
        "sam_rise",
        "sam_half_rise",
        "sam_lowered",
        "sam_lambda",
        "sam_lambda_0",
        "sam_lemma",
        "sam_lemma_along_gradient",
        "sam_theorem",
        "sam_weight_bound",
        "sam_calibrated_theorem",
    )

    def __init__(
        self,
        *,
        rho: float = 0.05,
        gamma: float = 1.0,
        num_samples: int = 64,
        moving: bool = False,
        num_points: int = 5,
        max_products: int = 60,
    ) -> None:
        if not rho > 0:
            raise ValueError(f"`rho` must be positive, got {rho}.")
        if num_samples < 1:
            raise ValueError(f"`num_samples` must be at least 1, got {num_samples}.")
        self._num_samples, self._moving = num_samples, moving
        self._options: dict[str, Any] = {
            "rho": rho,
            "gamma": gamma,
            "num_points": num_points,
            "max_products": max_products,
        }

    def __call__(self, snapshot: Snapshot) -> dict[str, float]:
        loss = loss_within(snapshot.objective)
        if not isinstance(loss, CrossEntropy):
            raise ValueError("The theory of SAM's climb is about cross-entropy: leave the observer out.")
        split = snapshot.splits["train"]
        start = snapshot.step % max(len(split.labels) - self._num_samples + 1, 1) if self._moving else 0
        few = slice(start, start + self._num_samples)
        try:
            with evaluating(snapshot.model):
                theory = sam_certificates(snapshot.model, split.inputs[few], split.labels[few], **self._options)
        except FloatingPointError as error:
            raise Diverged(f"SAM's climb at step {snapshot.step}: {error}") from None
        ascent = theory.ascent
        floor = float(ascent.kappa_min_floor.min())
        values = (
            float(ascent.kappa_min.min()),
            floor if math.isfinite(floor) else math.nan,
            float(ascent.kappa_min[0]),
            float(ascent.kappa_min[-1]),
            straightness(ascent.t, ascent.kappa_min),
            float(ascent.directional.min()),
            ascent.threshold,
            ascent.rise,
            ascent.half_rise,
            float((ascent.perturbed_losses > ascent.losses).double().mean()),
            theory.weight,
            theory.weight_floor if math.isfinite(theory.weight_floor) else math.nan,
            *(_CODES[item.verdict] for item in theory.certificates),
        )
        return keyed("train", self.quantities, values)
