"""SGD with the steepest directions of curvature removed, or with nothing else."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from surefoot.optim._closure import Copied, Params, check_gradients, check_real, run
from surefoot.params import flat, unflat

Subspace = Callable[[], Tensor]


class BulkSGD(Copied, Optimizer):
    r"""Plain SGD on the gradient projected off the top curvature eigenvectors, w <- w - lr (I - V V^T) g.

    Song, Ahn and Yun 2025. `subspace` is called at the present weights, every `refresh_every` steps, and gives vectors
    [k, P] over all parameters in order; they are orthonormalised here. If it has `state_dict` and `load_state_dict`
    they are saved with the optimizer; if it has a `residual`, that is reported. `alignment` is ||V^T g|| / ||g|| of the
    last step. Momentum would carry the
    projected directions on after the subspace has turned, and is refused. One gradient per step beside those of
    `subspace`.

    >>> w = torch.nn.Parameter(torch.ones(2))
    >>> bulk = BulkSGD([w], lr=0.1, subspace=lambda: torch.tensor([[0.0, 1.0]]))
    >>> def closure():
    ...     loss = (w.square() * torch.tensor([0.5, 5.0])).sum()
    ...     loss.backward()
    ...     return loss.item()
    >>> bulk.step(closure), w.tolist(), round(bulk.alignment, 3)
    (5.5, [0.8999999761581421, 1.0], 0.995)
    """

    keeps_bulk = True

    def __init__(
        self,
        params: Params,
        lr: float,
        *,
        subspace: Subspace,
        refresh_every: int = 1,
        momentum: float = 0.0,
    ) -> None:
        if not lr >= 0:
            raise ValueError(f"`lr` must be at least 0, got {lr}.")
        if momentum != 0:
            raise ValueError(f"`momentum` must be 0: it would undo the projection; got {momentum}.")
        if refresh_every < 1:
            raise ValueError(f"`refresh_every` must be at least 1, got {refresh_every}.")
        if not callable(subspace):
            raise ValueError(f"`subspace` must be a function that gives vectors [k, P], got {subspace!r}.")
        super().__init__(params, {"lr": lr})
        check_real(self)
        self.subspace = subspace
        self.refresh_every = refresh_every
        self.num_steps = 0
        self.alignment = math.nan
        self._vectors: Tensor | None = None  # [k, P], orthonormal

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; the closure's loss before it."""
        if self.num_steps % self.refresh_every == 0 or self._vectors is None:
            self._refresh()
        loss = None if closure is None else run(closure, self)
        self._move()
        self.num_steps += 1
        return loss

    @torch.no_grad()
    def _refresh(self) -> None:
        with torch.enable_grad():
            vectors = self.subspace()
        size = sum(p.numel() for p in self._params())
        if vectors.ndim != 2 or vectors.shape[1] != size or not bool(vectors.isfinite().all()):
            raise ValueError(f"`subspace` must give finite vectors [k, {size}], got shape {list(vectors.shape)}.")
        basis, triangle = torch.linalg.qr(vectors.detach().T)
        sizes = triangle.diagonal().abs()
        kept = sizes > 1e-6 * sizes.max().clamp(min=torch.finfo(sizes.dtype).tiny)  # the others say nothing new
        self._vectors = basis.T[kept].contiguous()

    @torch.no_grad()
    def _move(self) -> None:
        params = self._params()
        check_gradients(self)
        gradient = flat([torch.zeros_like(p) if p.grad is None else p.grad for p in params])
        assert self._vectors is not None
        vectors = self._vectors.to(gradient)
        inside = vectors @ gradient
        self.alignment = float(inside.norm() / (gradient.norm() + 1e-30))
        dominant = vectors.T @ inside
        step = gradient - dominant if self.keeps_bulk else dominant
        if self.keeps_bulk:
            step -= vectors.T @ (vectors @ step)  # what rounding left
        rates = [group["lr"] for group in self.param_groups for p in group["params"] if p.requires_grad]
        for p, part, lr in zip(params, unflat(step, params), rates, strict=True):
            p.add_(part, alpha=-lr)

    def report(self) -> dict[str, float]:
        """What a record of training should hold beside the losses."""
        measured = {} if math.isnan(self.alignment) else {"optimizer/alignment": self.alignment}
        residual = getattr(self.subspace, "residual", None)
        return measured if residual is None else {**measured, "optimizer/subspace_residual": residual}

    def state_dict(self) -> dict[str, Any]:
        """The subspace, its age, and what it remembers itself."""
        own = {"num_steps": self.num_steps, "vectors": self._vectors, "alignment": self.alignment}
        if hasattr(self.subspace, "state_dict"):
            own["memory"] = self.subspace.state_dict()
        return {**super().state_dict(), "subspace": own}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a saved state."""
        super().load_state_dict(state_dict)
        own = state_dict.get("subspace")
        if own is None:
            raise ValueError("`state_dict` has no subspace: it is not that of a BulkSGD.")
        self.num_steps, self._vectors, self.alignment = own["num_steps"], own["vectors"], own["alignment"]
        if "memory" in own and hasattr(self.subspace, "load_state_dict"):
            self.subspace.load_state_dict(own["memory"])

    def _params(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"] if p.requires_grad]


class DominantSGD(BulkSGD):
    """The complement: plain SGD on the gradient's part inside the subspace, w <- w - lr V V^T g."""

    keeps_bulk = False
