"""What a random vector proves about eigenvalues that were not found."""

import math

import torch
from torch import Tensor

_RATIO, _MARGIN = 1.03, 1.05  # of neighbouring points on the grid; how much f is allowed to rise between them


def outer_bound(projected: Tensor, outside: Tensor, lost: Tensor, probe: int, norm: float, *, delta: float) -> float:
    r"""A number that no eigenvalue of A exceeds, with probability at least 1 - delta.

    Given A V = V T + Q R (`projected` T, `outside` R) and a standard normal vector b, drawn without knowledge of A,
    whose part outside the rows of V before row `probe` is `norm` times that row. If A had an eigenvalue l above all of
    T's, with unit eigenvector v, then (l - T) V v = R^T Q v, hence, w being v's unit part outside those earlier rows,
    |b^T w| <= ||R (l - T)^-1 V b'|| =: f(l) with b' = norm * row. But b^T w is standard normal: it is that small for
    all l beyond u only with probability P(|N(0, 1)| <= sup_{l >= u} f(l)). The bound is the smallest u where this is
    delta. `lost` are sizes of columns of Q R that were taken for rounding: they count in full. No assumption on the
    spectrum; after van Dorsselaer, Hochstenbach and van der Vorst 2000, who have it for
    V = a Krylov space of b.
    """
    values, vectors = torch.linalg.eigh(projected)
    top = float(values[-1])
    parts = (outside @ vectors) * (vectors[probe] * norm)  # f(l) = || sum of columns / (l - value) ||
    small = math.sqrt(2) * float(torch.erfinv(torch.tensor(delta, dtype=torch.float64, device="cpu"))) / _MARGIN
    total = float(parts.norm(dim=0).sum()) + norm * float(lost.norm())
    if small == 0:
        return math.inf if total > 0 else top
    far = total / small  # f is small enough from here on, by the triangle inequality
    near = 1e-9 * max(float(values.abs().max()), far)
    if not far > near:
        return top
    number = 2 + math.ceil(math.log(far / near) / math.log(_RATIO))
    beyond = torch.logspace(math.log10(near), math.log10(far), number, dtype=torch.float64, device="cpu")
    inverse = 1 / (beyond + (top - values)[:, None])  # [M, .]
    size = (parts @ inverse).norm(dim=0) + lost @ (vectors @ ((vectors[probe] * norm)[:, None] * inverse)).abs()
    above = (size > small).nonzero()
    return top + float(beyond[min(int(above[-1]) + 1, number - 1) if len(above) else 0])
