"""Bounds of eigenvalues that a Krylov space does not resolve, by a random vector."""

import math

import torch
from torch import Tensor

_RATIO, _MARGIN = 1.03, 1.05  # of neighbouring points on the grid; how much f is allowed to rise between them


def outer_bound(
    projected: Tensor, outside: Tensor, deflated: Tensor, probe: int, norm: float, *, delta: float
) -> float:
    r"""A number that no eigenvalue of A exceeds, with probability at least 1 - delta.

    Given A V = V T + Q R (`projected` T, `outside` R) and a standard normal vector b, drawn without knowledge of A,
    whose part outside the rows of V before row `probe` is `norm` times that row. If A had an eigenvalue l above all of
    T's, with unit eigenvector v, then (l - T) V v = R^T Q v, hence, w being v's unit part outside those earlier rows,
    |b^T w| <= ||R (l - T)^-1 V b'|| =: f(l) with b' = norm * row. But b^T w is standard normal: it is that small for
    all l beyond u only with probability P(|N(0, 1)| <= sup_{l >= u} f(l)). The bound is the smallest u where this is
    delta. `deflated` are sizes of columns of Q R that were taken for rounding: they count in full. No assumption on the
    spectrum; after van Dorsselaer, Hochstenbach and van der Vorst 2000, who have it for
    V = a Krylov space of b.
    """
    probe_bound = _ProbeBound(projected, outside, deflated, probe, norm)
    small = math.sqrt(2) * float(torch.erfinv(torch.tensor(delta, dtype=torch.float64, device="cpu"))) / _MARGIN
    if small == 0:
        return math.inf if probe_bound.total > 0 else probe_bound.top
    far = probe_bound.total / small  # f is small enough from here on
    near = 1e-9 * max(probe_bound.scale, far)
    if not far > near:
        return probe_bound.top
    beyond, size = probe_bound.between(near, far)
    above = (size > small).nonzero()
    return probe_bound.top + float(beyond[min(int(above[-1]) + 1, len(beyond) - 1) if len(above) else 0])


def outer_risk(
    projected: Tensor, outside: Tensor, deflated: Tensor, probe: int, norm: float, *, beyond: float
) -> float:
    """The probability with which an eigenvalue above `beyond` may have been missed: the same read the other way."""
    probe_bound = _ProbeBound(projected, outside, deflated, probe, norm)
    if beyond <= probe_bound.top:
        return 1.0
    near = beyond - probe_bound.top
    _, (first, *_) = probe_bound.between(near, 2 * near)
    _, size = probe_bound.between(near, max(probe_bound.total / max(float(first), 1e-300), 2 * near))
    return math.erf(_MARGIN * float(size.max()) / math.sqrt(2))


class _ProbeBound:
    """f(l) of `outer_bound`: how much of the random vector an eigenvector to l > top can have."""

    def __init__(self, projected: Tensor, outside: Tensor, deflated: Tensor, probe: int, norm: float) -> None:
        self.values, self.vectors = torch.linalg.eigh(projected)
        self.top, self.scale = float(self.values[-1]), float(self.values.abs().max())
        self.weights = self.vectors[probe] * norm
        self.parts = (outside @ self.vectors) * self.weights  # f(l) = || sum of columns / (l - value) ||
        self.deflated = deflated
        self.total = float(self.parts.norm(dim=0).sum()) + norm * float(deflated.norm())  # f(l) <= total / (l - top)

    def between(self, near: float, far: float) -> tuple[Tensor, Tensor]:
        """Distances from the top on a grid, and f there."""
        number = 2 + math.ceil(math.log(far / near) / math.log(_RATIO))
        beyond = torch.logspace(math.log10(near), math.log10(far), number, dtype=torch.float64, device="cpu")
        inverse = 1 / (beyond + (self.top - self.values)[:, None])  # [M, .]
        by_deflation = self.deflated @ (self.vectors @ (self.weights[:, None] * inverse)).abs()
        return beyond, (self.parts @ inverse).norm(dim=0) + by_deflation
