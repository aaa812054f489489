"""The spectral density of a matrix known by its products."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Density:
    """Eigenvalues with the share of the spectrum that each stands for; the shares add up to 1."""

    values: Tensor  # [M], ascending
    weights: Tensor  # [M]
    num_matvecs: int

    def share_above(self, value: float) -> float:
        """The share of eigenvalues above `value`."""
        return float(self.weights[self.values > value].sum())

    def moment(self, power: int) -> float:
        """The mean of the eigenvalues to a power; times P, the trace for power 1."""
        return float((self.weights * self.values**power).sum())


def spectral_density(
    matvec: Callable[[Tensor], Tensor], like: Tensor, *, num_steps: int = 30, num_probes: int = 4, seed: int = 0
) -> Density:
    """How the eigenvalues are spread, by stochastic Lanczos quadrature.

    From each of `num_probes` random vectors, `num_steps` steps of Lanczos with full reorthogonalisation; the nodes and
    weights of the quadrature are averaged. Exact for moments up to 2 num_steps - 1 of each probe. Keeps num_steps
    vectors `like` [P]. Ghorbani et al. 2019.
    """
    if num_steps < 1 or num_probes < 1:
        raise ValueError(f"`num_steps` and `num_probes` must be at least 1, got {num_steps} and {num_probes}.")
    generator = torch.Generator().manual_seed(seed)
    values, weights, products = [], [], 0
    for _ in range(num_probes):
        start = torch.randn(like.numel(), generator=generator, device="cpu").to(like)
        basis, diagonal, beside = [start / start.norm()], [], []
        while True:
            image = matvec(basis[-1])
            products += 1
            diagonal.append(float(basis[-1] @ image))
            kept = torch.stack(basis)
            for _ in range(2):  # twice is enough (Kahan)
                image = image - kept.T @ (kept @ image)
            size = float(image.norm())
            tiny = 10 * torch.finfo(like.dtype).eps * like.numel() ** 0.5 * max(map(abs, diagonal))
            if len(basis) == min(num_steps, like.numel()) or size <= tiny:
                break
            beside.append(size)
            basis.append(image / size)
        off = torch.tensor(beside, dtype=torch.float64).diag(1) if beside else 0
        nodes, vectors = torch.linalg.eigh(torch.tensor(diagonal, dtype=torch.float64).diag() + off, UPLO="U")
        values.append(nodes)
        weights.append(vectors[0].square() / num_probes)
    order = torch.cat(values).argsort()
    return Density(torch.cat(values)[order], torch.cat(weights)[order], products)
