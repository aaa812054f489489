"""The search for extreme eigenvalues: which direction to multiply next, and which bounds hold so far."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.curvature._band_lanczos import BandLanczos, combined
from surefoot.curvature._bound import outer_bound, outer_risk
from surefoot.curvature.eigenpair import Eigenpair

_GUARDS = 3  # Ritz vectors kept at a restart, besides those asked for
_STALE = 0.05  # squared residual over (distance to the bound times the bound): above, start vectors are refined first
_SMALL = 1 << 21  # numbers that may be stored however few vectors they make: small matrices need no restarts
_FIRST = 0.8  # share of the remaining delta that the next probe takes


@dataclass(eq=False, kw_only=True)
class EigenSearch:
    """A search for the `num` outermost eigenpairs: which direction to multiply next, and which bounds hold so far.

    Args:
        space: The band Lanczos space to expand, empty.
        like: A vector [P] of the kind to multiply.
        sides: 1.0 for the largest eigenvalues, 1.0 and -1.0 for the largest magnitude.
        num: How many eigenpairs.
        tolerance: Of every bound (or residual), relative to its value.
        delta: The probability with which bounds may fail.
        generator: For random probe vectors.
        max_matvecs: The most products.
        on_residual: Whether to stop on residuals instead of bounds.
    """

    space: BandLanczos
    like: Tensor
    sides: tuple[float, ...]
    num: int
    tolerance: float
    delta: float
    generator: torch.Generator
    max_matvecs: int
    on_residual: bool

    def __post_init__(self) -> None:
        self.capacity = max(self.num + 10, 2 * self.num + 8, min(100, _SMALL // self.like.numel()))
        self.out_of_products = False
        # Ritz pairs on the stored vectors, outermost first
        self.values = torch.zeros(0, dtype=torch.float64, device="cpu")  # [M]
        self.weights = torch.zeros(0, 0, dtype=torch.float64, device="cpu")  # of the stored vectors, in rows
        self.vectors = self.weights  # the same as weights of V
        # bounds
        self.bounds = [math.inf] * self.num
        self.risks = [1.0] * self.num
        self.earlier_bounds = [math.inf] * self.num  # by probes before the present one
        # the probe: a random vector that the rows of V before it were computed without
        self.probe_row = -1  # its row of V; -1 while the space has none
        self.probe_norm = 0.0
        self.probe_risk = 0.0
        self.remaining_delta = self.delta
        self.exhausted = False  # V is the whole space

    def begin(self, start: list[Tensor]) -> None:
        """Multiply the start vectors, refine those that have gone stale, and only then multiply a random probe.

        In this order because the probe's bound gains from every row of V before it.
        """
        for vector in start[: min((self.capacity - 4) // 2, self.max_matvecs - 1)]:
            self.space.put_last(vector)
        self.space.multiply_candidates()
        while self.space.basis and self.space.num_matvecs < self.max_matvecs - 1:
            self._rayleigh_ritz()
            remainders = self.space.outside @ self.vectors[: max(self.num, len(start))].T
            sizes = torch.tensor([self._size(n) for n in range(remainders.shape[1])], dtype=torch.float64, device="cpu")
            edge = sizes[0] + self._allowed_error(0)
            harm = remainders.square().sum(dim=0) / (edge.abs() * (edge - sizes) + 1e-300)  # about what the bound loses
            if self.on_residual:
                unresolved = [
                    n for n in range(min(self.num, len(self.values))) if self._residual(n) > self._allowed_error(n)
                ]
                harm = torch.zeros_like(harm)
                harm[unresolved[:1]] = 1.0
            if float(harm.max()) <= _STALE or self._full:  # nothing may be discarded before the probe is in
                break
            self.space.expand(self._remainder(self.vectors[int(harm.argmax())]))
        self._add_probe()

    def step(self) -> None:
        """Do one more product, after making room for it, or add a fresh probe where no direction is left."""
        direction = self._direction()
        if direction is None:
            self._shrink()
            if not self.out_of_products:
                self._add_probe()
            return
        if self._full:
            resolved = self.num == 1 and not self.on_residual  # with one, the bound alone decides what to multiply
            resolved = resolved or all(self._residual(n) <= self._allowed_error(n) for n in range(self.num))
            if not (resolved and self._discard()):
                self._shrink()
                if self.out_of_products:
                    return
                if resolved:
                    self._add_probe()
                else:  # the probe is not in the space any more
                    self.probe_row = -1
                    self._update()
                return
        self.space.expand(direction)
        self._update()

    @property
    def _full(self) -> bool:
        return self.capacity <= len(self.space) < self.like.numel()

    def _discard(self) -> bool:
        """Make room by discarding finished rows; whether there is some now."""
        discarded = self.space.discard(self.vectors[: self.num])
        self._rayleigh_ritz()
        return discarded and not self._full

    def _shrink(self) -> None:
        """Restart from the best Ritz vectors, and keep the bounds so far."""
        self.earlier_bounds = list(self.bounds)
        room = (self.capacity - 7) // 2  # as many candidates may come with them, and six more products
        number = max(self.num, min(self.num + _GUARDS, room))
        if self.space.has_discarded:
            if self.space.num_matvecs + number + 1 > self.max_matvecs:
                self.out_of_products = True
                return
            self.space = self.space.restarted(self.weights[:number])
            self.space.multiply_candidates()
        else:
            self.space.thick_restart(self.vectors[:number])

    def pairs(self, number: int, *, sign: float) -> list[Eigenpair]:
        """The outermost Ritz pairs; the search is over."""
        pairs = []
        for n, vector in enumerate(combined(self.space.stored_vectors, self.weights[:number])):
            value = float(self.values[n])
            bound = self.bounds[n] if n < self.num else math.inf
            pairs.append(
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
        return pairs

    @property
    def settled(self) -> bool:
        return all(self._settled(n) for n in range(self.num))

    def _settled(self, n: int) -> bool:
        if n >= len(self.values):
            return False
        if self.on_residual:
            return self.probe_row >= 0 and self._residual(n) <= self._allowed_error(n)
        return self.bounds[n] - self._size(n) <= self._allowed_error(n)

    def _size(self, n: int) -> float:
        """The n-th Ritz value, its magnitude if both ends count."""
        return abs(float(self.values[n])) if len(self.sides) == 2 else float(self.values[n])

    def _allowed_error(self, n: int) -> float:
        seen = float(self.values.abs().max())
        return self.tolerance * max(abs(float(self.values[n])), self.tolerance * seen)

    def _add_probe(self) -> None:
        """Multiply a random probe, of which the rows of V so far are independent."""
        if self.capacity - 1 <= len(self.space) < self.like.numel():  # it brings a direction of its own
            self._rayleigh_ritz()
            self._shrink()
        self.probe_row = len(self.space.basis)
        self.probe_norm, self.exhausted = 0.0, self.probe_row == self.like.numel()
        while self.probe_norm == 0 and not self.exhausted:
            drawn = torch.randn(self.like.shape, generator=self.generator, device="cpu").to(self.like)
            self.probe_norm = self.space.put_first(drawn)
        self.probe_risk = _FIRST * self.remaining_delta
        self.remaining_delta -= self.probe_risk
        if not self.exhausted:
            self.space.expand()
        self._update()

    def _update(self) -> None:
        """Update Ritz pairs and bounds to the space as it is now."""
        self._rayleigh_ritz()
        for n in range(min(self.num, len(self.values))):
            if self.exhausted or len(self.values) == self.like.numel():
                self.bounds[n], self.risks[n] = self._size(n), 0.0
                continue
            if self.on_residual:
                self.bounds[n] = self._size(n) + self._allowed_error(n)
                self.risks[n] = self._risk(min(n, self.probe_row), self.bounds[n]) if self.probe_row >= 0 else 1.0
                continue
            bound = self._bound(min(n, self.probe_row)) if self.probe_row >= 0 else math.inf
            if self.earlier_bounds[n] >= self._size(n):  # else it is refuted: that probe was one of the few that miss
                bound = min(bound, self.earlier_bounds[n])
            self.bounds[n] = bound

    def _rayleigh_ritz(self) -> None:
        """Compute the Ritz pairs on the stored vectors, as weights of those and of V."""
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
        deflated, probe = self.space.deflated[n:], self.probe_row - n
        return max(
            outer_bound(side * inner, outside, deflated, probe, self.probe_norm, delta=self.probe_risk)
            for side in self.sides
        )  # the outermost eigenvalue has one sign, so only one of the two can fail

    def _risk(self, n: int, beyond: float) -> float:
        inner, outside = self.space.projected[n:, n:], self.space.outside[:, n:]
        deflated, probe = self.space.deflated[n:], self.probe_row - n
        return max(
            outer_risk(side * inner, outside, deflated, probe, self.probe_norm, beyond=beyond) for side in self.sides
        )

    def _direction(self) -> Tensor | None:
        """Which combination of candidates to multiply next; None if only a fresh probe can help."""
        if not self.space.candidates:
            return None
        if len(self.values) < self.num:
            return self._nonzero(self.space.outside[:, -1])
        n = next(n for n in range(self.num) if not self._settled(n))
        allowed_error = self._allowed_error(n)
        if n <= self.probe_row and not self.on_residual:
            # the residual of (u - A) x = b', whose norm is what the bound waits for
            inner = self.space.projected[n:, n:]
            edge, side = max((float(torch.linalg.eigvalsh(side * inner)[-1]), side) for side in self.sides)
            if edge <= self._size(n) + allowed_error / 2:
                matrix = -side * inner
                matrix.diagonal().add_(edge + allowed_error)
                probe = torch.zeros(len(inner), dtype=torch.float64, device="cpu")
                probe[self.probe_row - n] = self.probe_norm
                whole = torch.zeros(len(self.space.basis), dtype=torch.float64, device="cpu")
                whole[n:] = torch.linalg.solve(matrix, probe)
                return self._nonzero(self._remainder(whole))
        unresolved = [m for m in range(self.num) if self._residual(m) > self._allowed_error(m)]
        return self._nonzero(self._remainder(self.vectors[unresolved[0]])) if unresolved else None

    @staticmethod
    def _nonzero(direction: Tensor) -> Tensor | None:
        return direction if bool(direction.any()) else None
