"""The outermost eigenvalues of a model's curvature, followed while it trains."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from surefoot.curvature.eigen import Which, check_accuracy, eigenpairs, random_source
from surefoot.curvature.eigenpair import Eigenpair
from surefoot.curvature.ggn import GGN
from surefoot.curvature.matrix import CurvatureMatrix, Loss

_SAVED = 4  # budgets that may be saved up for a hard measurement; the first one starts with as much
_GUARDS = 1  # vectors kept besides those asked for: the next to come up
_STALE = 0.98  # squared length of the outermost eigenvector inside the vectors kept before; below, they are not used


@dataclass(frozen=True, eq=False)
class Tracked:
    """One measurement: eigenpairs, outermost first, and what it cost."""

    pairs: tuple[Eigenpair, ...]
    gradients: float  # spent, by the costs that the matrix states
    overlap: float | None  # squared, of the first eigenvector with that of the measurement before
    certified: bool  # all bounds within the tolerance, each with a probability to fail of at most the delta asked for

    @property
    def value(self) -> float:
        """The outermost eigenvalue, or what is known of it: it lies between this and `bound`."""
        return self.pairs[0].value

    @property
    def bound(self) -> float:
        """See `Eigenpair`."""
        return self.pairs[0].bound

    @property
    def crossed(self) -> bool:
        """Whether another direction has become the outermost one, by crossing or because all has turned."""
        return self.overlap is not None and self.overlap < 0.5


class SharpnessTracker:
    """Follows the `num` outermost curvature eigenvalues along training, at some gradients per certified value.

    Each measurement starts from the vectors of the one before, refines them, and bounds with a fresh random vector what
    they may have missed (`Eigenpair.bound`), so that eigenvalues may cross and new ones rise between measurements.
    Where eigenvectors rotate faster than they are measured, as at the edge of stability, a warm start costs more than
    it saves: the search then starts from the random vector alone, until the vectors overlap again. `budget` is what a
    measurement may spend on average, in gradients; what easy ones leave is saved for hard ones. A value that could not
    be certified within it is returned, marked as such. With `stop="residual"` a measurement is cheaper, states its own
    delta, and is certified only where that came out small enough.

    >>> tracker = SharpnessTracker()
    >>> model = nn.Linear(2, 3)
    >>> tracked = tracker.measure(model, nn.CrossEntropyLoss(), torch.eye(2), torch.tensor([0, 1]))
    >>> tracked.certified
    True
    """

    def __init__(
        self,
        *,
        num: int = 1,
        matrix: type[CurvatureMatrix] = GGN,
        which: Which = "largest algebraic",
        tolerance: float = 0.02,
        delta: float = 0.05,
        stop: Literal["bound", "residual"] = "bound",
        budget: float = 20.0,
        seed: int = 0,
    ) -> None:
        check_accuracy(tolerance, delta, stop)
        if not budget >= matrix.build_cost + (num + 2) * matrix.product_cost:
            least = matrix.build_cost + (num + 2) * matrix.product_cost
            raise ValueError(f"`budget` must be at least {least:.3g} gradients for {num} eigenvalues, got {budget}.")
        self.num = num
        self.matrix = matrix
        self.which = which
        self.tolerance = tolerance
        self.delta = delta
        self.stop = stop
        self.budget = budget
        self.saved = _SAVED * budget
        self._generator = random_source(seed)
        self._vectors: Tensor | None = None  # [num + guards, P] of the measurement before
        self._fresh = False  # whether those are worth starting from

    def measure(self, model: nn.Module, loss: Loss, inputs: Tensor, labels: Tensor, **options: Any) -> Tracked:
        """Measure the model at its present weights. `options` go to the matrix (`only`, `chunk_size`)."""
        matrix = self.matrix(model, loss, inputs, labels, **options)
        like = matrix.like
        affordable = int((self.saved + self.budget - matrix.build_cost) / matrix.product_cost)
        before = None if self._vectors is None else self._vectors.to(like)
        if before is not None and before.shape[1] != like.numel():
            raise ValueError(f"The tracker followed {before.shape[1]} weights so far, got {like.numel()}.")
        pairs = eigenpairs(
            matrix.__matmul__,
            like,
            num=self.num,
            which=self.which,
            start=before if self._fresh else None,
            guards=_GUARDS,
            tolerance=self.tolerance,
            delta=self.delta,
            stop=self.stop,
            max_matvecs=affordable,
            generator=self._generator,
        )
        spent = matrix.build_cost + pairs[0].num_matvecs * matrix.product_cost
        self.saved = max(min(self.saved + self.budget - spent, _SAVED * self.budget), 0.0)
        overlap, kept = None, 1.0
        if before is not None:
            overlaps = (before @ pairs[0].vector).square()
            overlap, kept = float(overlaps[0]), float(overlaps.sum())
        self._fresh = kept >= _STALE
        self._vectors = torch.stack([pair.vector for pair in pairs])
        tracked = tuple(pairs[: self.num])
        certified = all(pair.converged and pair.delta <= self.delta for pair in tracked)
        return Tracked(tracked, spent, overlap, certified)

    def state_dict(self) -> dict[str, Any]:
        """Vectors to start from, what is saved of the budget, and the generator."""
        return {
            "vectors": self._vectors,
            "fresh": self._fresh,
            "saved": self.saved,
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self._vectors = state["vectors"]
        self._fresh = state["fresh"]
        self.saved = state["saved"]
        self._generator.set_state(state["generator"])
