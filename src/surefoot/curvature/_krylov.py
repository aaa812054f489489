"""A subspace that grows by products with a symmetric matrix."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_COLUMNS = 1 << 16  # how many columns of all rows are mixed at a time, so that mixing needs no second copy


class Krylov:
    """Orthonormal rows V with their products: A V = V T + Q R, Q orthonormal rows outside V.

    Band Lanczos with full reorthogonalisation. The rows of V have been multiplied; those of Q are pending: what the
    products have left outside V, and start vectors that have not been multiplied yet. T and R are small, in float64 on
    the CPU, and hold all there is to know about A on V: no product is stored. A row of V whose remainder has been
    multiplied too is finished, its column of R zero: later products do not meet it, and it can be forgotten, in V and T
    still but not in memory, except for a few mixtures of such rows. Memory: one vector per row at hand and per
    mixture, one for the product, and what the product itself needs.
    """

    def __init__(self, matvec: Callable[[Tensor], Tensor]) -> None:
        self.matvec = matvec
        self.basis: list[Tensor | None] = []  # V, None where forgotten
        self.mixtures: list[Tensor] = []  # of forgotten rows
        self.pending: list[Tensor] = []  # Q
        self.projected = torch.zeros(0, 0, dtype=torch.float64, device="cpu")  # T [M, M]
        self.outside = torch.zeros(0, 0, dtype=torch.float64, device="cpu")  # R [len(Q), M]
        self.num_matvecs = 0
        self.lost = torch.zeros(0, dtype=torch.float64, device="cpu")  # [M], sizes of remainders taken for rounding
        self._parts = torch.zeros(0, 0, dtype=torch.float64, device="cpu")  # mixtures as weights of V [., M]
        self._largest = 0.0  # norm of a product so far

    def __len__(self) -> int:
        """The number of vectors held."""
        return len(self.at_hand) + len(self.pending)

    @property
    def at_hand(self) -> list[Tensor]:
        """Mixtures of forgotten rows, then the other rows of V: orthonormal."""
        return self.mixtures + [row for row in self.basis if row is not None]

    @property
    def coordinates(self) -> Tensor:
        """The vectors at hand as weights of V [., M]."""
        stored = [k for k, row in enumerate(self.basis) if row is not None]
        return torch.cat([self._parts, torch.eye(len(self.basis), dtype=torch.float64, device="cpu")[stored]])

    @property
    def forgetful(self) -> bool:
        """Whether a row has been forgotten."""
        return any(row is None for row in self.basis)

    def add(self, vector: Tensor) -> float:
        """Make what of `vector`, which is overwritten, lies outside V the first of the pending rows.

        Returns its norm, 0 where it is no more than rounding and nothing was added.
        """
        before = float(vector.norm())
        self._remove(vector, self.at_hand)
        norm = float(vector.norm())
        if norm <= _rounding(vector) * before:
            return 0.0
        vector /= norm
        # V stays; of Q what lies along the vector moves to its row of R, and what is left is made orthonormal again
        along = _numbers([row @ vector for row in self.pending])
        for row, part in zip(self.pending, along.tolist(), strict=True):
            row.add_(vector, alpha=-part)
        own = (along @ self.outside)[None]
        gram = torch.eye(len(along), dtype=torch.float64, device="cpu") - torch.outer(along, along)
        scales, turn = torch.linalg.eigh(gram)
        scales = scales.clamp(min=0).sqrt()
        outside = scales[:, None] * (turn.T @ self.outside)
        kept = scales > _rounding(vector)
        self.lost = self.lost + outside[~kept].norm(dim=0)
        self.pending = [vector, *mixed(self.pending, turn.T[kept] / scales[kept, None])]
        self.outside = torch.cat([own, outside[kept]])
        return norm

    def queue(self, vector: Tensor) -> None:
        """Make what of `vector`, which is overwritten, lies outside V and Q the last of the pending rows."""
        before = float(vector.norm())
        self._remove(vector, self.at_hand + self.pending)
        norm = float(vector.norm())
        if norm > _rounding(vector) * before:
            self.pending.append(vector.div_(norm))
            self.outside = torch.cat([self.outside, self.outside.new_zeros(1, len(self.basis))])

    def grow(self, along: Tensor | None = None) -> None:
        """Multiply one direction among the pending ones, their mixture with weights `along`, or else the first."""
        if along is not None and len(self.pending) > 1:
            turn = _reflection(along / along.norm())
            self.pending = mixed(self.pending, turn)
            self.outside = turn @ self.outside
        direction, *others = self.pending
        image = self.matvec(direction)
        self.num_matvecs += 1
        image = image.to(direction).clone() if image.data_ptr() == direction.data_ptr() else image.to(direction)
        image, scale = _scaled(image)
        norm = scale * float(image.norm())
        if not math.isfinite(norm):
            raise FloatingPointError(f"Product {self.num_matvecs} with the matrix is not finite.")
        self._largest = max(self._largest, norm)
        self.basis.append(direction)
        self._parts = torch.cat([self._parts, self._parts.new_zeros(len(self._parts), 1)], dim=1)
        stored = [k for k, row in enumerate(self.basis) if row is not None]
        size, first = len(self.basis), len(self.mixtures)
        inside = scale * self._remove(image, self.at_hand + others)
        column = torch.zeros(size, dtype=torch.float64, device="cpu")
        column[stored] = inside[first : first + len(stored)]
        projected = torch.zeros(size, size, dtype=torch.float64, device="cpu")
        projected[:-1, :-1] = self.projected
        projected[-1] = projected[:, -1] = column
        self.projected = projected
        self.outside = torch.cat([self.outside[1:], inside[first + len(stored) :, None]], dim=1)
        left = float(image.norm())
        self.pending = others
        self.lost = torch.cat([self.lost, self.lost.new_zeros(1)])
        if scale * left <= _rounding(image) * self._largest:
            self.lost[-1] = scale * left
        else:
            self.pending.append(image.div_(left))
            self.outside = torch.cat([self.outside, self.outside.new_zeros(1, size)])
            self.outside[-1, -1] = scale * left

    def keep(self, weights: Tensor) -> None:
        """Shrink V, none of it forgotten, to the rows of `weights` [N, M] times V, N orthonormal eigenvectors of T."""
        self.basis = list(mixed(self.at_hand, weights))
        self._parts = self._parts.new_zeros(0, len(weights))
        self.projected = weights @ self.projected @ weights.T
        self.lost = weights.abs() @ self.lost
        # what is left of R has no more than N rows that matter
        left, sizes, right = torch.linalg.svd(self.outside @ weights.T, full_matrices=False)
        needed = sizes > 1e-14 * max(float(self.projected.abs().max()), self._largest)
        self.lost = self.lost + (sizes[:, None] * right)[~needed].norm(dim=0)
        self.pending = mixed(self.pending, left.T[needed])
        self.outside = (sizes[:, None] * right)[needed]

    def forget(self, weights: Tensor) -> bool:
        """Forget finished rows but for what the rows of `weights` [N, M] times V have of them; whether that helped."""
        sizes = self.outside.norm(dim=0)
        finished = [
            k for k, row in enumerate(self.basis) if row is not None and float(sizes[k]) <= 1e-12 * self._largest
        ]
        if len(finished) + len(self.mixtures) <= len(weights):
            return False
        old = torch.cat([self._parts, torch.eye(len(self.basis), dtype=torch.float64, device="cpu")[finished]])
        turn = torch.linalg.qr((weights @ old.T).T).Q.T  # [N, .], orthonormal
        rows = self.mixtures + [row for k in finished if (row := self.basis[k]) is not None]
        self.mixtures = mixed(rows, turn)
        self._parts = turn @ old
        for k in finished:
            self.basis[k] = None
        return True

    def restart(self, weights: Tensor) -> None:
        """Begin anew from the rows of `weights` [N, .] times the vectors at hand, which are multiplied again."""
        start = mixed(self.at_hand, weights)
        products = self.num_matvecs
        self.__init__(self.matvec)  # type: ignore[misc]
        self.num_matvecs = products
        for vector in start:
            self.queue(vector)
        for _ in range(len(self.pending)):
            self.grow()

    def _remove(self, vector: Tensor, rows: Sequence[Tensor]) -> Tensor:
        """Make `vector` orthogonal to the rows, in place; returns its products with them."""
        total = torch.zeros(len(rows), dtype=torch.float64, device="cpu")
        for _ in range(2 if rows else 0):  # twice is enough (Kahan)
            parts = [row @ vector for row in rows]
            for row, part in zip(rows, parts, strict=True):
                vector.addcmul_(row, part, value=-1)
            total += _numbers(parts)
        return total


def _numbers(parts: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(parts)).cpu().double() if parts else torch.zeros(0, dtype=torch.float64, device="cpu")


def _scaled(image: Tensor) -> tuple[Tensor, float]:
    """The product as numbers whose squares neither underflow nor overflow, and the power of two it was divided by."""
    if 1e-6 < float(image.norm()) < 1e6:
        return image, 1.0
    peak = float(image.abs().amax())
    if peak == 0 or not math.isfinite(peak):
        return image, 1.0
    limit = math.frexp(torch.finfo(image.dtype).max)[1] - 2  # of powers that are numbers of this type themselves
    power = max(-limit, min(limit, math.frexp(peak)[1]))
    return torch.ldexp(image, torch.tensor(-power, device=image.device)), math.ldexp(1.0, power)


def _rounding(vector: Tensor) -> float:
    """The relative size below which a vector's remainder is rounding."""
    return 32 * torch.finfo(vector.dtype).eps


def _reflection(towards: Tensor) -> Tensor:
    """An orthogonal matrix whose first row is the unit vector given, up to sign."""
    normal = towards.clone()
    normal[0] += 1.0 if float(towards[0]) >= 0 else -1.0
    normal /= normal.norm()
    return torch.eye(len(towards), dtype=torch.float64, device="cpu") - 2 * torch.outer(normal, normal)


def mixed(rows: list[Tensor], weights: Tensor) -> list[Tensor]:
    """The rows `weights` [N, M] times `rows`, N at most M, in the memory of the first N."""
    if not len(weights):
        return []
    for at in range(0, rows[0].numel(), _COLUMNS):
        part = torch.stack([row[at : at + _COLUMNS] for row in rows])
        for row, new in zip(rows, weights.to(part) @ part, strict=False):
            row[at : at + _COLUMNS] = new
    return rows[: len(weights)]
