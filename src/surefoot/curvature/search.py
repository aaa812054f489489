"""The search for extreme eigenvalues: which direction to multiply next, and what is proved so far."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.curvature._bound import outer_bound, outer_risk
from surefoot.curvature._krylov import Krylov, mixed

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


class Search:
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
