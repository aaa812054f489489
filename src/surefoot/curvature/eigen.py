"""Extreme eigenvalues of a symmetric matrix known by its products, each with what is proved about it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from surefoot.curvature.bound import outer_bound, outer_risk
from surefoot.curvature.krylov import Krylov, mixed
from surefoot.registry import look_up

Which = Literal["largest algebraic", "smallest algebraic", "largest magnitude"]
_SIGNS: dict[str, tuple[float, ...]] = {
    "largest algebraic": (1.0,),
    "smallest algebraic": (-1.0,),
    "largest magnitude": (1.0, -1.0),
}
_GUARDS = 3  # Ritz vectors kept at a restart, besides those asked for
_STALE = 0.05  # squared residual over (distance to the bound times the bound): where start vectors are mended first
_SMALL = 1 << 21  # numbers that may be held however few vectors they make: small matrices need no restarts
_FIRST = 0.8  # share of the risk still to be run that the next random vector takes


@dataclass(frozen=True, eq=False)
class Eigenpair:
    """An eigenvalue with its proof: it lies between `value` and `bound`.

    On the side of `value` that is certain, up to rounding: the largest eigenvalue is at least as large as a Ritz value
    (the n-th as the n-th; the smallest at most as large; in magnitude likewise). On the side of `bound` it holds with
    probability at least 1 - `delta`, over the random vector of the measurement and whatever the matrix. `residual`
    proves that some eigenvalue is within that distance of `value`, not which.
    """

    value: float
    vector: Tensor  # [P], unit norm
    residual: float  # ||A v - value v||
    bound: float
    delta: float
    num_matvecs: int  # of the whole measurement, shared by the eigenpairs it returned
    converged: bool  # `bound` (or the residual, if that was asked for) is within the tolerance of `value`


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
    """The `num` outermost eigenpairs of a symmetric matrix of vectors `like` [P], outermost first.

    Rayleigh-Ritz on a space that grows from the vectors `start` [R, P] (those of a matrix nearby, or none) and a random
    one. At most max(num + 10, 2 num + 8) vectors are held, more only where they are small. Stops when every bound is
    within `tolerance` of its value, relative to the value or to `tolerance` times the largest eigenvalue seen, or when
    the products are spent; `converged` says which. `guards` further pairs are returned as they are: good to start from
    when the matrix has changed. "largest magnitude" gives one pair only.

    With `stop="residual"` it stops as soon as every residual is within the tolerance, which is cheaper. The bound is
    then the value plus the tolerance, and `delta` of the result the risk that an eigenvalue beyond it was missed, as a
    p-value is: for every d, missing one while stating d or less has probability d at most.

    >>> A = torch.diag(torch.arange(100.0))
    >>> found, = eigenpairs(A.__matmul__, A[0])
    >>> found.converged, found.value <= 99 <= found.bound
    (True, True)
    """
    signs = look_up("end of the spectrum", which, _SIGNS)
    size = like.numel()
    if not 1 <= num <= size:
        raise ValueError(f"`num` must lie in 1..{size}, got {num}.")
    if num > 1 and len(signs) == 2:
        raise ValueError("`num` must be 1 for the largest magnitude: ask for several at each end instead.")
    check_accuracy(tolerance, delta, stop)
    if start is not None and (start.ndim != 2 or start.shape[1] != size or not bool(start.any())):
        raise ValueError(f"`start` must have shape [R, {size}] and not be zero, got {list(start.shape)}.")
    if start is not None and generator is None:
        raise ValueError("`start` needs a `generator`, and one that had no part in making it: the proof rests on that.")
    if max_matvecs < num:
        raise ValueError(f"`max_matvecs` must be at least `num`, {num}, got {max_matvecs}.")
    search = _Search(
        Krylov((lambda v: -matvec(v)) if signs == (-1.0,) else matvec),
        like,
        signs if len(signs) == 2 else (1.0,),
        num,
        tolerance,
        delta,
        random_source(0) if generator is None else generator,
        max_matvecs,
        on_residual=stop == "residual",
    )
    search.begin([] if start is None else list(start.to(like).clone()))
    while not search.settled and not search.spent and search.space.num_matvecs < max_matvecs:
        search.step()
    return search.pairs(num + guards, sign=signs[0])


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


class _Search:
    """One measurement on its way."""

    def __init__(
        self,
        space: Krylov,
        like: Tensor,
        sides: tuple[float, ...],
        num: int,
        tolerance: float,
        delta: float,
        generator: torch.Generator,
        max_matvecs: int,
        *,
        on_residual: bool,
    ) -> None:
        self.space = space
        self.like = like
        self.sides = sides
        self.num = num
        self.tolerance = tolerance
        self.delta = delta
        self.generator = generator
        self.max_matvecs = max_matvecs
        self.on_residual = on_residual
        self.risks = [1.0] * num
        self.spent = False
        self.capacity = max(num + 10, 2 * num + 8, min(100, _SMALL // like.numel()))
        self.bounds = [math.inf] * num
        self.earlier = [math.inf] * num  # bounds by random vectors before the present one
        self.left = delta  # of the risk
        self.exhausted = False

    def begin(self, start: list[Tensor]) -> None:
        """Multiply the start vectors, mend what has gone stale, and only then multiply a random vector.

        In this order because its proof gains from all that was known before it.
        """
        for vector in start[: min((self.capacity - 4) // 2, self.max_matvecs - 1)]:
            self.space.queue(vector)
        for _ in range(len(self.space.pending)):
            self.space.grow()
        while self.space.basis and self.space.num_matvecs < self.max_matvecs - 1:
            self._ritz()
            remainders = self.space.outside @ self.vectors[: max(self.num, len(start))].T
            sizes = torch.tensor([self._size(n) for n in range(remainders.shape[1])], dtype=torch.float64, device="cpu")
            edge = sizes[0] + self._slack(0)
            harm = remainders.square().sum(dim=0) / (edge.abs() * (edge - sizes) + 1e-300)  # about what the bound loses
            if self.on_residual:
                blurred = [n for n in range(min(self.num, len(self.values))) if self._residual(n) > self._slack(n)]
                harm = torch.zeros_like(harm)
                harm[blurred[:1]] = 1.0
            if float(harm.max()) <= _STALE or self._full:  # nothing may be forgotten before the random vector is in
                break
            self.space.grow(self._remainder(self.vectors[int(harm.argmax())]))
        self._probe()

    def step(self) -> None:
        """One more product, after making room for it; or a fresh random vector where nothing is left to see."""
        direction = self._direction()
        if direction is None:
            self._shrink()
            if not self.spent:
                self._probe()
            return
        if self._full:
            found = self.num == 1 and not self.on_residual  # with one, the bound alone says what to multiply
            found = found or all(self._residual(n) <= self._slack(n) for n in range(self.num))
            if not (found and self._forget()):
                self._shrink()
                if self.spent:
                    return
                if found:
                    self._probe()
                else:  # go on looking; the random vector is not in the space any more
                    self.known = -1
                    self._look()
                return
        self.space.grow(direction)
        self._look()

    @property
    def _full(self) -> bool:
        return self.capacity <= len(self.space) < self.like.numel()

    def _forget(self) -> bool:
        """Make room by forgetting; whether there is some now."""
        forgot = self.space.forget(self.vectors[: self.num])
        self._ritz()
        return forgot and not self._full

    def _shrink(self) -> None:
        """Keep the best Ritz vectors alone, and the bounds found so far."""
        self.earlier = list(self.bounds)
        room = (self.capacity - 7) // 2  # as many pending directions may come with them, and six more products
        number = max(self.num, min(self.num + _GUARDS, room))
        if self.space.forgetful:
            if self.space.num_matvecs + number + 1 > self.max_matvecs:
                self.spent = True
                return
            self.space.restart(self.weights[:number])
        else:
            self.space.keep(self.vectors[:number])

    def pairs(self, number: int, *, sign: float) -> list[Eigenpair]:
        """The outermost Ritz pairs; the search is over."""
        found = []
        for n, vector in enumerate(mixed(self.space.at_hand, self.weights[:number])):
            value = float(self.values[n])
            bound = self.bounds[n] if n < self.num else math.inf
            found.append(
                Eigenpair(
                    value=sign * value,
                    vector=vector,
                    residual=self._residual(n),
                    bound=sign * (math.copysign(bound, value) if len(self.sides) == 2 else bound),
                    delta=self.risks[n] if self.on_residual and n < self.num else self.delta,
                    num_matvecs=self.space.num_matvecs,
                    converged=n < self.num and self._settled(n),
                )
            )
        return found

    @property
    def settled(self) -> bool:
        return all(self._settled(n) for n in range(self.num))

    def _settled(self, n: int) -> bool:
        if n >= len(self.values):
            return False
        if self.on_residual:
            return self.known >= 0 and self._residual(n) <= self._slack(n)
        return self.bounds[n] - self._size(n) <= self._slack(n)

    def _size(self, n: int) -> float:
        """The n-th Ritz value, its magnitude if both ends count."""
        return abs(float(self.values[n])) if len(self.sides) == 2 else float(self.values[n])

    def _slack(self, n: int) -> float:
        seen = float(self.values.abs().max())
        return self.tolerance * max(abs(float(self.values[n])), self.tolerance * seen)

    def _probe(self) -> None:
        """Multiply a random vector; what the space holds so far knows nothing of it."""
        if self.capacity - 1 <= len(self.space) < self.like.numel():  # it brings a direction of its own
            self._ritz()
            self._shrink()
        self.known = len(self.space.basis)
        self.norm, self.exhausted = 0.0, self.known == self.like.numel()
        while self.norm == 0 and not self.exhausted:
            drawn = torch.randn(self.like.shape, generator=self.generator, device="cpu").to(self.like)
            self.norm = self.space.add(drawn)
        self.risk = _FIRST * self.left
        self.left -= self.risk
        if not self.exhausted:
            self.space.grow()
        self._look()

    def _look(self) -> None:
        """Ritz pairs and bounds of the space as it is now."""
        self._ritz()
        for n in range(min(self.num, len(self.values))):
            if self.exhausted or len(self.values) == self.like.numel():
                self.bounds[n], self.risks[n] = self._size(n), 0.0
                continue
            if self.on_residual:
                self.bounds[n] = self._size(n) + self._slack(n)
                self.risks[n] = self._risk(min(n, self.known), self.bounds[n]) if self.known >= 0 else 1.0
                continue
            bound = self._bound(min(n, self.known)) if self.known >= 0 else math.inf
            if self.earlier[n] >= self._size(n):  # else it is refuted: that random vector was one of the few that miss
                bound = min(bound, self.earlier[n])
            self.bounds[n] = bound

    def _ritz(self) -> None:
        """Ritz pairs on the vectors at hand: the weights of those, and of V."""
        coordinates = self.space.coordinates
        values, vectors = torch.linalg.eigh(coordinates @ self.space.projected @ coordinates.T)
        order = (values.abs() if len(self.sides) == 2 else values).argsort(descending=True)
        self.values, self.weights = values[order], vectors[:, order].T  # in rows
        self.vectors = self.weights @ coordinates

    def _residual(self, n: int) -> float:
        """||A v - value v|| of the n-th Ritz vector."""
        vector = self.vectors[n]
        inside = self.space.projected @ vector - self.values[n] * vector
        return math.hypot(float(inside.norm()), float((self.space.outside @ vector).norm()))

    def _remainder(self, vector: Tensor) -> Tensor:
        """Of the row of V that leaves most of A v outside, which this finishes."""
        return self.space.outside[:, int((self.space.outside.norm(dim=0) * vector.abs()).argmax())]

    def _bound(self, n: int) -> float:
        """Of the n-th eigenvalue: of the largest on what is orthogonal to the first n rows (Courant and Fischer)."""
        inner, outside = self.space.projected[n:, n:], self.space.outside[:, n:]
        lost, probe = self.space.lost[n:], self.known - n
        return max(
            outer_bound(side * inner, outside, lost, probe, self.norm, delta=self.risk) for side in self.sides
        )  # the outermost eigenvalue has one sign, so only one of the two can fail

    def _risk(self, n: int, beyond: float) -> float:
        inner, outside = self.space.projected[n:, n:], self.space.outside[:, n:]
        lost, probe = self.space.lost[n:], self.known - n
        return max(outer_risk(side * inner, outside, lost, probe, self.norm, beyond=beyond) for side in self.sides)

    def _direction(self) -> Tensor | None:
        """Which mixture of the pending directions to multiply next; None if only a fresh random vector can help."""
        if not self.space.pending:
            return None
        if len(self.values) < self.num:
            return self._some(self.space.outside[:, -1])
        n = next(n for n in range(self.num) if not self._settled(n))
        slack = self._slack(n)
        if n <= self.known and not self.on_residual:
            # the residual of (u - A) x = b', whose norm is what the bound waits for
            inner = self.space.projected[n:, n:]
            edge, side = max((float(torch.linalg.eigvalsh(side * inner)[-1]), side) for side in self.sides)
            if edge <= self._size(n) + slack / 2:
                matrix = -side * inner
                matrix.diagonal().add_(edge + slack)
                probe = torch.zeros(len(inner), dtype=torch.float64, device="cpu")
                probe[self.known - n] = self.norm
                whole = torch.zeros(len(self.space.basis), dtype=torch.float64, device="cpu")
                whole[n:] = torch.linalg.solve(matrix, probe)
                return self._some(self._remainder(whole))
        blurred = [m for m in range(self.num) if self._residual(m) > self._slack(m)]
        return self._some(self._remainder(self.vectors[blurred[0]])) if blurred else None

    @staticmethod
    def _some(direction: Tensor) -> Tensor | None:
        return direction if bool(direction.any()) else None
