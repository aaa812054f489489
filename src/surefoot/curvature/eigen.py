"""Extreme eigenvalues of a symmetric matrix known by its products, each with a bound."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from surefoot.curvature._band_lanczos import BandLanczos
from surefoot.curvature._eigen_search import EigenSearch
from surefoot.curvature.eigenpair import Eigenpair
from surefoot.registry import look_up

Which = Literal["largest algebraic", "smallest algebraic", "largest magnitude"]
_SIGNS: dict[str, tuple[float, ...]] = {
    "largest algebraic": (1.0,),
    "smallest algebraic": (-1.0,),
    "largest magnitude": (1.0, -1.0),
}


def eigenpairs(
    matvec: Callable[[Tensor], Tensor],
    like: Tensor,
    *,
    num: int = 1,
    which: Which = "largest algebraic",
    start: Tensor | None = None,
    guards: int = 0,
    tolerance: float = 0.01,
    delta: float = 0.05,
    stop: Literal["bound", "residual"] = "bound",
    max_matvecs: int = 100,
    generator: torch.Generator | None = None,
) -> list[Eigenpair]:
    """Compute the `num` outermost eigenpairs of a symmetric matrix, each with a bound that holds at 1 - `delta`.

    Rayleigh-Ritz on a band Lanczos space that grows from `start` and a random vector, until every bound is within the
    tolerance or the products are used up. Stores at most max(num + 10, 2 num + 8) vectors, more only where they are
    small.

    Args:
        matvec: The product A v for a vector v [P].
        like: A vector [P] of the kind to multiply: its size, precision and device.
        num: How many eigenpairs; 1 for "largest magnitude".
        which: The end of the spectrum.
        start: Vectors [R, P] to start from, those of a similar matrix; needs a `generator`.
        guards: How many further pairs to return, without bounds: good to start from when the matrix has changed.
        tolerance: Distance of a bound from its value, relative to the value or to `tolerance` times the largest
            eigenvalue seen, whichever is larger.
        delta: Probability with which a bound may fail, over the random vectors and for any matrix.
        stop: "bound", or "residual" to stop as soon as every residual is within the tolerance, which is cheaper. The
            bound is then the value plus the tolerance, and the result's own `delta` the risk that an eigenvalue beyond
            it was missed, like a p-value: for every d, missing one while stating d or less has probability d at most.
        max_matvecs: The most products.
        generator: For the random vectors; it must have had no part in making `start`.

    Returns:
        `num` + `guards` eigenpairs, outermost first; `converged` says whether the tolerance was reached.

    Raises:
        ValueError: If an argument is outside its range.
        FloatingPointError: If a product is not finite.

    Example:
        >>> A = torch.diag(torch.arange(100.0))
        >>> pair, = eigenpairs(A.__matmul__, A[0])
        >>> pair.converged, pair.value <= 99 <= pair.bound
        (True, True)
    """
    signs = look_up("end of the spectrum", which, _SIGNS)
    _check_request(like.numel(), signs, num=num, start=start, max_matvecs=max_matvecs, generator=generator)
    check_accuracy(tolerance, delta, stop)
    search = EigenSearch(
        space=BandLanczos((lambda v: -matvec(v)) if signs == (-1.0,) else matvec),
        like=like,
        sides=signs if len(signs) == 2 else (1.0,),
        num=num,
        tolerance=tolerance,
        delta=delta,
        generator=random_source(0) if generator is None else generator,
        max_matvecs=max_matvecs,
        on_residual=stop == "residual",
    )
    search.begin([] if start is None else list(start.to(like).clone()))
    while not search.settled and not search.out_of_products and search.space.num_matvecs < max_matvecs:
        search.step()
    return search.pairs(num + guards, sign=signs[0])


def _check_request(
    size: int,
    signs: tuple[float, ...],
    *,
    num: int,
    start: Tensor | None,
    max_matvecs: int,
    generator: torch.Generator | None,
) -> None:
    if not 1 <= num <= size:
        raise ValueError(f"`num` must lie in 1..{size}, got {num}.")
    if num > 1 and len(signs) == 2:
        raise ValueError("`num` must be 1 for the largest magnitude: ask for several at each end instead.")
    if start is not None and (start.ndim != 2 or start.shape[1] != size or not bool(start.any())):
        raise ValueError(f"`start` must have shape [R, {size}] and not be zero, got {list(start.shape)}.")
    if start is not None and generator is None:
        raise ValueError("`start` needs a `generator`, and one that had no part in making it: the proof rests on that.")
    if max_matvecs < num:
        raise ValueError(f"`max_matvecs` must be at least `num`, {num}, got {max_matvecs}.")


def check_accuracy(tolerance: float, delta: float, stop: str) -> None:
    """Raise ValueError unless these can be asked for."""
    if not tolerance > 0:
        raise ValueError(f"`tolerance` must be positive, got {tolerance}.")
    if not 0 < delta < 1:
        raise ValueError(f"`delta` must lie between 0 and 1, got {delta}.")
    look_up("rule to stop by", stop, {"bound": None, "residual": None})


def random_source(seed: int) -> torch.Generator:
    """A generator for random vectors that know nothing of a model initialised with the same seed."""
    return torch.Generator().manual_seed((2 * seed + 1) * 0x1E3779B97F4A7C15 % 2**63)
