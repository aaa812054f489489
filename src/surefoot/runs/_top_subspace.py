"""The steepest directions of the training loss, for optimizers that avoid or follow them."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from surefoot.curvature import GGN, CurvatureMatrix, Hessian, SharpnessTracker
from surefoot.data import Split
from surefoot.losses import Loss
from surefoot.training.snapshot import Diverged

MATRICES: dict[str, type[CurvatureMatrix]] = {"ggn": GGN, "hessian": Hessian}


class TopSubspace:
    """The `k` largest curvature eigenvectors [k, P] of the loss on all training samples, at the present weights.

    Each call starts from the vectors of the one before and stops when every residual is within `tolerance` of the
    eigenvalue, or at `max_products` products; `residual` is the largest one relative to its eigenvalue.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        split: Split,
        *,
        k: int = 1,
        matrix: Literal["ggn", "hessian"] = "hessian",
        tolerance: float = 0.05,
        max_products: int = 50,
        seed: int = 0,
    ) -> None:
        if k < 1:
            raise ValueError(f"`k` must be at least 1, got {k}.")
        if max_products < k + 2:
            raise ValueError(f"`max_products` must be at least k + 2, {k + 2}, got {max_products}.")
        self.model = model
        self.loss = loss
        self.split = split
        kind = MATRICES[matrix]
        budget = kind.build_cost + max_products * kind.product_cost
        self._tracker = SharpnessTracker(
            num=k, matrix=kind, tolerance=tolerance, stop="residual", budget=budget, seed=seed
        )
        self._tracker.saved = 0.0
        self.residual: float | None = None
        self.num_products = 0  # of the last call

    def __call__(self) -> Tensor:
        try:
            sharpness = self._tracker.measure(self.model, self.loss, self.split.inputs, self.split.labels)
        except FloatingPointError as error:
            raise Diverged(f"curvature of the training set: {error}") from None
        self._tracker.saved = 0.0
        self.num_products = sharpness.pairs[0].num_matvecs
        self.residual = max(pair.residual / max(abs(pair.value), 1e-30) for pair in sharpness.pairs)
        return torch.stack([pair.vector for pair in sharpness.pairs])

    def state_dict(self) -> dict[str, Any]:
        """The tracker's."""
        return {**self._tracker.state_dict(), "residual": self.residual}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self._tracker.load_state_dict(state)
        self.residual = state["residual"]
