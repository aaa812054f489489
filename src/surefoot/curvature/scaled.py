"""Sharpness in other geometries: that of a preconditioned optimizer, and one that ignores how weights are scaled."""

from torch import Tensor
from torch.optim import Optimizer

from surefoot.curvature.eigen import eigenpairs, random_source
from surefoot.curvature.eigenpair import Eigenpair
from surefoot.curvature.matrix import CurvatureMatrix
from surefoot.params import flat


def effective_sharpness(
    matrix: CurvatureMatrix, optimizer: Optimizer, *, tolerance: float = 0.01, max_matvecs: int = 100, seed: int = 0
) -> Eigenpair:
    """The largest eigenvalue of P^-1 A, P the diagonal that Adam or AdamW divides its steps by.

    What A's own is to gradient descent: with momentum b Adam is stable up to (2 + 2 b) / ((1 - b) lr). The vector is
    that of P^-1/2 A P^-1/2. ValueError for an optimizer without Adam's state. Cohen et al. 2022.
    """
    return _top(
        matrix, by=adam_preconditioner(matrix, optimizer).rsqrt(), tolerance=tolerance, most=max_matvecs, seed=seed
    )


def adaptive_sharpness(
    matrix: CurvatureMatrix, *, tolerance: float = 0.01, max_matvecs: int = 100, seed: int = 0
) -> Eigenpair:
    """The largest eigenvalue of |W| A |W|, W the diagonal of the weights.

    Growth of the loss under a change of each weight in proportion to its size: the same for networks that differ only
    in how a factor is shared between layers. Kwon et al. 2021.
    """
    size = flat([p.detach() for p in matrix.params]).abs()
    return _top(matrix, by=size, tolerance=tolerance, most=max_matvecs, seed=seed)


def adam_preconditioner(matrix: CurvatureMatrix, optimizer: Optimizer) -> Tensor:
    """sqrt(v / (1 - beta2^t)) + eps of every weight [P], in the matrix's order."""
    groups = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    parts = []
    for name, p in zip(matrix.names, matrix.params, strict=True):
        state = optimizer.state.get(p, {})
        if "exp_avg_sq" not in state:
            raise ValueError(f"`optimizer` must be Adam or AdamW after at least one step, got no state for {name!r}.")
        group = groups[id(p)]
        correction = 1 - group["betas"][1] ** float(state["step"])
        parts.append((state["exp_avg_sq"] / correction).sqrt() + group["eps"])
    return flat(parts)


def _top(matrix: CurvatureMatrix, *, by: Tensor, tolerance: float, most: int, seed: int) -> Eigenpair:
    (pair,) = eigenpairs(
        lambda v: by * (matrix @ (by * v)),
        by,
        tolerance=tolerance,
        max_matvecs=most,
        generator=random_source(seed),
    )
    return pair
