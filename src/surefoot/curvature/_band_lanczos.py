"""Band Lanczos with full reorthogonalisation."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_COLUMNS_AT_ONCE = 1 << 16  # of all rows, so that linear combinations need no second copy


class BandLanczos:
    """An orthonormal basis V that grows by products with a symmetric matrix: A V = V T + Q R, Q orthonormal outside V.

    Band Lanczos (Ruhe 1979, Freund 2000). The rows of V, the Lanczos vectors, have been multiplied by A. The rows of Q
    are the candidates: remainders of products outside V, and start vectors that have not been multiplied yet. T and R
    are small, in float64 on the CPU, and describe A on V completely: no product is stored.

    This differs from the band Lanczos method in the literature in:

    1. Every product is orthogonalised against all stored vectors, twice, not against the last few alone: in float32
       the short recurrence loses orthogonality within a few products.
    2. Start vectors may be put before (`put_first`) or behind (`put_last`) the candidates at any time, and `expand`
       multiplies any combination of candidates, not only the oldest.
    3. A Lanczos vector whose remainder has been multiplied too is finished: its column of R is zero and later products
       are orthogonal to it. `discard` removes finished vectors from memory; they stay rows of V and T. Only `retained`,
       a few orthonormal combinations of them, are stored.
    4. `thick_restart` shrinks V to Ritz vectors and keeps A V = V T + Q R exact, with no new product (Wu and Simon
       2000). Once vectors are discarded that is impossible: `restarted` begins anew from Ritz vectors, which are
       multiplied again.
    5. Deflated remainders are not forgotten: `deflated` sums their sizes per row, so that a bound can count them.

    Memory: one vector per stored Lanczos vector, retained combination and candidate, one for the product, and what the
    product itself needs.
    """

    def __init__(self, matvec: Callable[[Tensor], Tensor], *, num_matvecs: int = 0) -> None:
        self.matvec = matvec
        self.num_matvecs = num_matvecs  # those of spaces before this one included
        self.basis: list[Tensor | None] = []  # V, None where discarded
        self.retained: list[Tensor] = []  # orthonormal combinations of discarded rows
        self.candidates: list[Tensor] = []  # Q
        self.projected = torch.zeros(0, 0, dtype=torch.float64, device="cpu")  # T [M, M]
        self.outside = torch.zeros(0, 0, dtype=torch.float64, device="cpu")  # R [len(Q), M]
        self.deflated = torch.zeros(0, dtype=torch.float64, device="cpu")  # [M], sizes of remainders taken for rounding
        self._retained_coordinates = torch.zeros(0, 0, dtype=torch.float64, device="cpu")  # as weights of V [., M]
        self._largest_norm = 0.0  # of a product so far

    def __len__(self) -> int:
        """The number of vectors in memory."""
        return len(self.stored_vectors) + len(self.candidates)

    @property
    def stored_vectors(self) -> list[Tensor]:
        """The retained combinations, then the Lanczos vectors that were not discarded: orthonormal."""
        return self.retained + [row for row in self.basis if row is not None]

    @property
    def coordinates(self) -> Tensor:
        """The stored vectors as weights of V [., M]."""
        stored_rows = [k for k, row in enumerate(self.basis) if row is not None]
        return torch.cat(
            [self._retained_coordinates, torch.eye(len(self.basis), dtype=torch.float64, device="cpu")[stored_rows]]
        )

    @property
    def has_discarded(self) -> bool:
        """Whether a row has been discarded."""
        return any(row is None for row in self.basis)

    def put_first(self, vector: Tensor) -> float:
        """Make the part of `vector`, which is overwritten, outside V the first candidate.

        Returns its norm, 0 where it is no more than rounding and nothing was added.
        """
        before = float(vector.norm())
        self._orthogonalise(vector, self.stored_vectors)
        norm = float(vector.norm())
        if norm <= _rounding_level(vector) * before:
            return 0.0
        vector /= norm
        # V stays; of Q what lies along the vector moves to its row of R, and what is left is made orthonormal again
        along = _as_float64([row @ vector for row in self.candidates])
        for row, part in zip(self.candidates, along.tolist(), strict=True):
            row.add_(vector, alpha=-part)
        own = (along @ self.outside)[None]
        gram = torch.eye(len(along), dtype=torch.float64, device="cpu") - torch.outer(along, along)
        scales, turn = torch.linalg.eigh(gram)
        scales = scales.clamp(min=0).sqrt()
        outside = scales[:, None] * (turn.T @ self.outside)
        kept = scales > _rounding_level(vector)
        self.deflated = self.deflated + outside[~kept].norm(dim=0)
        self.candidates = [vector, *combined(self.candidates, turn.T[kept] / scales[kept, None])]
        self.outside = torch.cat([own, outside[kept]])
        return norm

    def put_last(self, vector: Tensor) -> None:
        """Make the part of `vector`, which is overwritten, outside V and Q the last candidate."""
        before = float(vector.norm())
        self._orthogonalise(vector, self.stored_vectors + self.candidates)
        norm = float(vector.norm())
        if norm > _rounding_level(vector) * before:
            self.candidates.append(vector.div_(norm))
            self.outside = torch.cat([self.outside, self.outside.new_zeros(1, len(self.basis))])

    def expand(self, along: Tensor | None = None) -> None:
        """Multiply the combination of candidates with weights `along`, or else the first, and make it a row of V."""
        if along is not None and len(self.candidates) > 1:
            turn = _householder(along / along.norm())
            self.candidates = combined(self.candidates, turn)
            self.outside = turn @ self.outside
        direction, *others = self.candidates
        image = self.matvec(direction)
        self.num_matvecs += 1
        image = image.to(direction).clone() if image.data_ptr() == direction.data_ptr() else image.to(direction)
        image, scale = _rescaled(image)
        norm = scale * float(image.norm())
        if not math.isfinite(norm):
            raise FloatingPointError(f"Product {self.num_matvecs} with the matrix is not finite.")
        self._largest_norm = max(self._largest_norm, norm)
        self.basis.append(direction)
        self._retained_coordinates = torch.cat(
            [self._retained_coordinates, self._retained_coordinates.new_zeros(len(self._retained_coordinates), 1)],
            dim=1,
        )
        stored_rows = [k for k, row in enumerate(self.basis) if row is not None]
        size, first = len(self.basis), len(self.retained)
        inside = scale * self._orthogonalise(image, self.stored_vectors + others)
        column = torch.zeros(size, dtype=torch.float64, device="cpu")
        column[stored_rows] = inside[first : first + len(stored_rows)]
        projected = torch.zeros(size, size, dtype=torch.float64, device="cpu")
        projected[:-1, :-1] = self.projected
        projected[-1] = projected[:, -1] = column
        self.projected = projected
        self.outside = torch.cat([self.outside[1:], inside[first + len(stored_rows) :, None]], dim=1)
        left = float(image.norm())
        self.candidates = others
        self.deflated = torch.cat([self.deflated, self.deflated.new_zeros(1)])
        if scale * left <= _rounding_level(image) * self._largest_norm:
            self.deflated[-1] = scale * left
        else:
            self.candidates.append(image.div_(left))
            self.outside = torch.cat([self.outside, self.outside.new_zeros(1, size)])
            self.outside[-1, -1] = scale * left

    def thick_restart(self, weights: Tensor) -> None:
        """Shrink V, of which nothing is discarded, to `weights` [N, M] times V, N orthonormal eigenvectors of T."""
        self.basis = list(combined(self.stored_vectors, weights))
        self._retained_coordinates = self._retained_coordinates.new_zeros(0, len(weights))
        self.projected = weights @ self.projected @ weights.T
        self.deflated = weights.abs() @ self.deflated
        # what is left of R has no more than N rows that matter
        left, sizes, right = torch.linalg.svd(self.outside @ weights.T, full_matrices=False)
        needed = sizes > 1e-14 * max(float(self.projected.abs().max()), self._largest_norm)
        self.deflated = self.deflated + (sizes[:, None] * right)[~needed].norm(dim=0)
        self.candidates = combined(self.candidates, left.T[needed])
        self.outside = (sizes[:, None] * right)[needed]

    def discard(self, weights: Tensor) -> bool:
        """Discard finished rows, but retain their part in `weights` [N, M] times V; whether that saved memory."""
        sizes = self.outside.norm(dim=0)
        finished = [
            k for k, row in enumerate(self.basis) if row is not None and float(sizes[k]) <= 1e-12 * self._largest_norm
        ]
        if len(finished) + len(self.retained) <= len(weights):
            return False
        old = torch.cat(
            [self._retained_coordinates, torch.eye(len(self.basis), dtype=torch.float64, device="cpu")[finished]]
        )
        turn = torch.linalg.qr((weights @ old.T).T).Q.T  # [N, .], orthonormal
        rows = self.retained + [row for k in finished if (row := self.basis[k]) is not None]
        self.retained = combined(rows, turn)
        self._retained_coordinates = turn @ old
        for k in finished:
            self.basis[k] = None
        return True

    def restarted(self, weights: Tensor) -> "BandLanczos":
        """A new space whose candidates are `weights` [N, .] times the stored vectors, in the memory of this space."""
        space = BandLanczos(self.matvec, num_matvecs=self.num_matvecs)
        for vector in combined(self.stored_vectors, weights):
            space.put_last(vector)
        return space

    def multiply_candidates(self) -> None:
        """Multiply all present candidates."""
        for _ in range(len(self.candidates)):
            self.expand()

    def _orthogonalise(self, vector: Tensor, rows: Sequence[Tensor]) -> Tensor:
        """Make `vector` orthogonal to the rows, in place; returns its products with them."""
        total = torch.zeros(len(rows), dtype=torch.float64, device="cpu")
        for _ in range(2 if rows else 0):  # twice is enough (Kahan)
            parts = [row @ vector for row in rows]
            for row, part in zip(rows, parts, strict=True):
                vector.addcmul_(row, part, value=-1)
            total += _as_float64(parts)
        return total


def _as_float64(parts: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(parts)).cpu().double() if parts else torch.zeros(0, dtype=torch.float64, device="cpu")


def _rescaled(image: Tensor) -> tuple[Tensor, float]:
    """The product as numbers whose squares neither underflow nor overflow, and the power of two it was divided by."""
    if 1e-6 < float(image.norm()) < 1e6:
        return image, 1.0
    peak = float(image.abs().amax())
    if peak == 0 or not math.isfinite(peak):
        return image, 1.0
    limit = math.frexp(torch.finfo(image.dtype).max)[1] - 2  # of powers that are numbers of this type themselves
    power = max(-limit, min(limit, math.frexp(peak)[1]))
    return torch.ldexp(image, torch.tensor(-power, device=image.device)), math.ldexp(1.0, power)


def _rounding_level(vector: Tensor) -> float:
    """The relative size below which a vector's remainder is rounding."""
    return 32 * torch.finfo(vector.dtype).eps


def _householder(towards: Tensor) -> Tensor:
    """An orthogonal matrix whose first row is the unit vector given, up to sign."""
    normal = towards.clone()
    normal[0] += 1.0 if float(towards[0]) >= 0 else -1.0
    normal /= normal.norm()
    return torch.eye(len(towards), dtype=torch.float64, device="cpu") - 2 * torch.outer(normal, normal)


def combined(rows: list[Tensor], weights: Tensor) -> list[Tensor]:
    """The rows `weights` [N, M] times `rows`, N at most M, in the memory of the first N."""
    if not len(weights):
        return []
    for at in range(0, rows[0].numel(), _COLUMNS_AT_ONCE):
        part = torch.stack([row[at : at + _COLUMNS_AT_ONCE] for row in rows])
        for row, new in zip(rows, weights.to(part) @ part, strict=False):
            row[at : at + _COLUMNS_AT_ONCE] = new
    return rows[: len(weights)]
