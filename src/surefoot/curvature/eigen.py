"""The largest eigenvalue of a symmetric matrix known by its products."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

_RIVAL = 0.8  # Ritz values above this share of the best are kept: while a network trains, one of them may overtake it
_MOST_KEPT = 10


@dataclass(frozen=True, eq=False)
class Eigenpair:
    """An estimate that carries its own proof of quality.

    `value` is a Rayleigh quotient, so the largest eigenvalue is at least as large. `residual` proves that some
    eigenvalue lies within that distance, not that it is the largest. `converged` says that the residual is at most the
    tolerance times the value and that no rival seen could exceed it, or that the space was exhausted.
    """

    value: float
    vector: Tensor  # [P], unit norm
    residual: float  # ||A v - value v||
    num_matvecs: int
    converged: bool
    subspace: Tensor  # [R, P], orthonormal: `vector` and its rivals, where to start the next measurement


def top_eigenpair(
    matvec: Callable[[Tensor], Tensor], start: Tensor, *, tolerance: float = 0.01, max_matvecs: int = 60
) -> Eigenpair:
    """The algebraically largest eigenvalue, by Rayleigh-Ritz on a space that grows along residuals.

    From one vector this is Lanczos with full reorthogonalisation; from several (`start` [R, P], the previous
    `subspace` while a network trains) it restarts where the last measurement ended. Stops once the residual of the best
    pair is at most `tolerance` times its value and no other Ritz pair, its own residual added, reaches beyond that: one
    that does is a rival on the way up, and the space grows along its residual first. (Bounds that divide the squared
    residual by the gap to the next Ritz value would stop earlier, and are fooled where eigenvalues are close.) Keeps
    two vectors of length P per product. What `start` is orthogonal to stays hidden, so it should carry a random part
    (`warm_start`).
    """
    if not tolerance > 0:
        raise ValueError(f"`tolerance` must be positive, got {tolerance}.")
    if start.ndim != 2 or max_matvecs <= len(start):
        raise ValueError(
            f"`max_matvecs` must exceed the number of start vectors [R, P], got {max_matvecs} for {list(start.shape)}."
        )
    size = start.shape[1]
    basis = start.new_empty(0, size)  # V, orthonormal rows
    images = start.new_empty(0, size)  # A V
    projected = squared = torch.empty(
        0, 0, dtype=torch.float64, device="cpu"
    )  # V A V^T and (A V) (A V)^T; MPS has no float64
    waiting = list(start)
    while True:
        while waiting:
            direction = _normal_part(waiting.pop(0), basis)
            if direction is None:
                continue
            image = matvec(direction)
            if not bool(image.isfinite().all()):
                raise FloatingPointError(f"Product {len(basis) + 1} with the matrix is not finite.")
            basis, images = torch.cat([basis, direction[None]]), torch.cat([images, image[None]])
            projected, squared = _bordered(projected, basis @ image), _bordered(squared, images @ image)
        if len(basis) == 0:
            raise ValueError("`start` must not be zero.")
        values, vectors = torch.linalg.eigh(projected)
        value, slack = float(values[-1]), tolerance * abs(float(values[-1]))
        remainder = _remainder(values[-1], vectors[:, -1], basis, images)
        residual = float(remainder.norm())
        # ||A v - t v||^2 = ||A v||^2 - t^2 for a Ritz pair: good enough for rivals, and free
        spreads = ((vectors * (squared @ vectors)).sum(dim=0) - values.square()).clamp(min=0).sqrt()
        reach = (values + spreads)[:-1]  # an eigenvalue may be as large as this
        settled = residual <= slack
        overtaken = len(reach) > 0 and float(reach.max()) > value + slack
        if settled and overtaken:
            worst = int(reach.argmax())
            remainder = _remainder(values[worst], vectors[:, worst], basis, images)
        next_direction = _normal_part(remainder, basis) if len(basis) < size else None
        converged = next_direction is None or (settled and not overtaken)
        if converged or next_direction is None or len(basis) == max_matvecs:
            kept = min(max(int((values > _RIVAL * value).sum()), 2), _MOST_KEPT)
            subspace = vectors.flip(1)[:, :kept].T.to(start) @ basis
            return Eigenpair(value, subspace[0] / subspace[0].norm(), residual, len(basis), converged, subspace)
        waiting = [next_direction]


def warm_start(previous: Tensor | None, *, like: Tensor, generator: torch.Generator) -> Tensor:
    """Start vectors [R, P] for `top_eigenpair`: the previous subspace with noise in its last row, or one at random.

    The noise keeps every direction reachable when the spectrum has turned since the previous measurement. It is drawn
    on the CPU, so that a seed means the same on every device.
    """
    noise = torch.randn(like.shape, generator=generator, device="cpu").to(like)
    noise /= noise.norm()
    if previous is None:
        return noise[None]
    previous = previous.to(like)
    return torch.cat([previous[:-1], (previous[-1] + 0.1 * noise)[None]])


def _normal_part(vector: Tensor, basis: Tensor) -> Tensor | None:
    """The unit vector along what of `vector` lies outside the basis; None where that is no more than rounding."""
    scale = float(vector.norm())
    for _ in range(2):  # twice is enough (Kahan)
        vector = vector - basis.T @ (basis @ vector)
    norm = float(vector.norm())
    rounding = 10 * torch.finfo(vector.dtype).eps * vector.numel() ** 0.5
    return vector / norm if norm > rounding * scale else None


def _bordered(matrix: Tensor, products: Tensor) -> Tensor:
    """A symmetric matrix with one more row and column."""
    edge = products.cpu().double()
    return torch.cat([torch.cat([matrix, edge[None, :-1]]), edge[:, None]], dim=1)


def _remainder(value: Tensor, weights: Tensor, basis: Tensor, images: Tensor) -> Tensor:
    """A v - value v for the Ritz vector v = weights V."""
    turned = weights.to(basis)
    return turned @ images - value.to(basis) * (turned @ basis)
