import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.curvature import Eigenpair, top_eigenpair, warm_start


def symmetric(eigenvalues: list[float], seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    n = len(eigenvalues)
    basis, _ = torch.linalg.qr(torch.randn(n, n, generator=generator, dtype=torch.float64))
    return basis @ torch.diag(torch.tensor(eigenvalues, dtype=torch.float64)) @ basis.T, basis


def solve(matrix: torch.Tensor, previous: torch.Tensor | None = None, **options: float) -> Eigenpair:
    start = warm_start(previous, like=matrix[0], generator=torch.Generator().manual_seed(3))
    return top_eigenpair(matrix.__matmul__, start, **options)


@settings(max_examples=60, deadline=None)
@given(
    eigenvalues=st.lists(st.floats(-5, 5, allow_subnormal=False), min_size=2, max_size=40),
    seed=st.integers(0, 99),
)
def test_the_value_is_a_lower_bound_and_the_residual_is_true(eigenvalues: list[float], seed: int) -> None:
    matrix, _ = symmetric(eigenvalues, seed)
    found = solve(matrix)
    assert found.value <= max(eigenvalues) + 1e-9
    distance = min(abs(found.value - value) for value in eigenvalues)
    assert distance <= found.residual + 1e-9


@pytest.mark.parametrize(
    "eigenvalues",
    [
        [9.0] + [k / 100 for k in range(99)],
        [9.0, 8.9, 8.8] + [k / 100 for k in range(99)],
        [9.0, 9.0, 9.0] + [k / 100 for k in range(99)],
        [1.0] + [-9.0] * 20,  # the largest algebraic, not the largest magnitude
        [float(k) for k in range(100)],
        [0.0] * 10,
        [-3.0, -4.0],
    ],
)
def test_reaches_the_asked_accuracy(eigenvalues: list[float]) -> None:
    matrix, _ = symmetric(eigenvalues)
    for tolerance in (1e-2, 1e-8):
        found = solve(matrix, tolerance=tolerance, max_matvecs=100)
        assert found.converged
        # the residual says that an eigenvalue is this near; inside a cluster it may be the largest one's neighbour
        assert found.value == pytest.approx(max(eigenvalues), rel=2 * tolerance, abs=1e-12)
        assert found.vector.norm().item() == pytest.approx(1)


def test_says_when_it_did_not_converge() -> None:
    matrix, _ = symmetric([1 - k / 1000 for k in range(500)])
    found = solve(matrix, tolerance=1e-9, max_matvecs=5)
    assert not found.converged
    assert found.num_matvecs == 5


def test_a_warm_start_follows_crossing_eigenvalues() -> None:
    low = [k / 50 for k in range(100)]
    before, basis = symmetric([10.0, 9.5, *low])
    after = basis @ torch.diag(torch.tensor([9.5, 10.5, *low], dtype=torch.float64)) @ basis.T
    previous = solve(before, tolerance=1e-6)
    warm = solve(after, previous.subspace)
    assert warm.value == pytest.approx(10.5, rel=1e-3)
    assert warm.num_matvecs <= 5


def test_a_non_finite_product_is_an_error() -> None:
    with pytest.raises(FloatingPointError, match="Product 1"):
        top_eigenpair(lambda v: v * float("nan"), torch.ones(1, 3))


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="`tolerance`"):
        top_eigenpair(lambda v: v, torch.ones(1, 3), tolerance=0.0)
    with pytest.raises(ValueError, match="`max_matvecs`"):
        top_eigenpair(lambda v: v, torch.ones(1, 3), max_matvecs=1)
    with pytest.raises(ValueError, match="must not be zero"):
        top_eigenpair(lambda v: v, torch.zeros(1, 3))
