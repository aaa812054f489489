"""The largest curvature eigenvalue, followed along training."""

from typing import Any, Literal

from surefoot.curvature import GGN, CurvatureMatrix, Hessian
from surefoot.losses import loss_within
from surefoot.training.observers._trackers import Trackers
from surefoot.training.observers.observer import keyed
from surefoot.training.snapshot import Snapshot


class CurvatureObserver:
    """GN sharpness of every split with its proof: between `ggn_sharpness` and `ggn_bound`; certified (1) or not (0).

    The bound holds with probability at least 1 - `delta` each time; with `stop="residual"` a value is cheaper and its
    `ggn_delta` comes out as it may. `budget` is what a measurement of one split may cost on average, in gradients of
    that split; `ggn_gradients` is what it did cost. See `SharpnessTracker`. `num_samples` of a split, the same ones
    every time, stand for all of a larger one. The objective must be a loss of logits. `at` every
    observation, or only at the end of training.
    """

    needs_curvature = True  # of a loss of logits
    matrix: type[CurvatureMatrix] = GGN
    splits: tuple[str, ...] | None = None  # all
    quantities: tuple[str, ...] = tuple(
        f"ggn_{name}" for name in ("sharpness", "bound", "delta", "residual", "gradients", "certified")
    )

    def __init__(
        self,
        *,
        tolerance: float = 0.02,
        delta: float = 0.05,
        stop: Literal["bound", "residual"] = "bound",
        budget: float = 20.0,
        num_samples: int | Literal["all"] = "all",
        at: Literal["end", "every"] = "every",
        seed: int = 0,
    ) -> None:
        if num_samples != "all" and num_samples < 1:
            raise ValueError(f'`num_samples` must be at least 1 or "all", got {num_samples}.')
        if at not in ("end", "every"):
            raise ValueError(f"`at` must be end or every, got {at!r}.")
        self._at = at
        self._trackers = Trackers(
            matrix=self.matrix, tolerance=tolerance, delta=delta, stop=stop, budget=budget, seed=seed
        )
        self._num_samples = num_samples

    def __call__(self, snapshot: Snapshot) -> dict[str, float]:
        if self._at == "end" and not snapshot.last:
            return {}
        loss = loss_within(snapshot.objective)
        if loss is None:
            raise ValueError("The curvature observer needs an objective that is a loss of logits and labels.")
        row: dict[str, float] = {}
        for name in snapshot.splits:
            if self.splits is not None and name not in self.splits:
                continue
            sharpness = self._trackers.measure(snapshot, name, loss, num_samples=self._num_samples)
            pair = sharpness.pairs[0]
            values = (
                sharpness.value,
                sharpness.bound,
                pair.delta,
                pair.residual,
                sharpness.gradients,
                sharpness.certified,
            )
            row |= keyed(name, self.quantities, values)
        return row

    def state_dict(self) -> dict[str, Any]:
        """The trackers' states."""
        return self._trackers.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self._trackers.load_state_dict(state)


class HessianObserver(CurvatureObserver):
    """The same of the training loss's Hessian: what gradient descent is held at 2 / lr by, at the edge of stability."""

    matrix = Hessian
    splits = ("train",)
    quantities = tuple(name.replace("ggn", "hessian") for name in CurvatureObserver.quantities)
