"""The largest eigenvalue of the Gauss-Newton matrix of every split, followed along training."""

from typing import Any

import torch
from torch import Tensor

from surefoot.curvature import GGN, top_eigenpair, warm_start
from surefoot.losses import Lifted
from surefoot.params import flat
from surefoot.training.observers.observer import keyed
from surefoot.training.snapshot import Diverged, Snapshot


class Curvature:
    """GN sharpness with what proves it: residual, number of products, converged (1) or not (0).

    Starts each measurement from the subspace of the one before, so that it costs about five gradients per split
    instead of ten. Needs an objective that is a loss of logits.
    """

    quantities: tuple[str, ...] = ("ggn_sharpness", "ggn_residual", "ggn_matvecs", "ggn_converged")

    def __init__(self, *, tolerance: float = 0.01, max_matvecs: int = 60, seed: int = 0) -> None:
        if not tolerance > 0:
            raise ValueError(f"`tolerance` must be positive, got {tolerance}.")
        if max_matvecs < 12:
            raise ValueError(f"`max_matvecs` must be at least 12, got {max_matvecs}.")
        self.tolerance = tolerance
        self.max_matvecs = max_matvecs
        self._generator = torch.Generator().manual_seed(seed)
        self._subspaces: dict[str, Tensor] = {}

    def __call__(self, snapshot: Snapshot) -> dict[str, float]:
        if not isinstance(snapshot.objective, Lifted):
            raise ValueError("The curvature observer needs an objective that is a loss of logits and labels.")
        row: dict[str, float] = {}
        for name, split in snapshot.splits.items():
            ggn = GGN(snapshot.model, snapshot.objective.loss, split.inputs, split.labels)
            like = flat([p.detach() for p in ggn.params])
            start = warm_start(self._subspaces.get(name), like=like, generator=self._generator)
            try:
                found = top_eigenpair(ggn.__matmul__, start, tolerance=self.tolerance, max_matvecs=self.max_matvecs)
            except FloatingPointError as error:
                raise Diverged(f"curvature of the {name} set at step {snapshot.step}: {error}") from None
            self._subspaces[name] = found.subspace
            values = (found.value, found.residual, found.num_matvecs, found.converged)
            row |= keyed(name, self.quantities, values)
        return row

    def state_dict(self) -> dict[str, Any]:
        """The subspaces to start from and the generator of their random part."""
        return {"generator": self._generator.get_state(), "subspaces": dict(self._subspaces)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self._generator.set_state(state["generator"])
        self._subspaces = dict(state["subspaces"])
