"""An eigenvalue with what is proved about it."""

from dataclasses import dataclass, field

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Eigenpair:
    """An eigenvalue with its proof: it lies between `value` and `bound`.

    On the side of `value` that is certain, up to rounding: the largest eigenvalue is at least as large as a Ritz value
    (the n-th as the n-th; the smallest at most as large; in magnitude likewise). On the side of `bound` it holds with
    probability at least 1 - `delta`, over the random vector of the measurement and whatever the matrix. `residual`
    proves that some eigenvalue is within that distance of `value`, not which.
    """

    value: float
    vector: Tensor = field(repr=False)  # [P], unit norm
    residual: float  # ||A v - value v||
    bound: float
    delta: float
    num_matvecs: int  # of the whole measurement, shared by the eigenpairs it returned
    converged: bool  # `bound` (or the residual, if that was asked for) is within the tolerance of `value`
