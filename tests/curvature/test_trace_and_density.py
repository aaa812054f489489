import pytest
import torch

from surefoot.curvature import spectral_density, trace


def symmetric(values: torch.Tensor, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    turn = torch.linalg.qr(torch.randn(len(values), len(values), generator=generator, dtype=torch.float64)).Q
    return turn @ values.diag() @ turn.T


def test_the_trace_is_unbiased_with_an_honest_error() -> None:
    values = torch.cat([torch.tensor([50.0, 20.0, -10.0]), torch.linspace(0, 1, 77)]).double()
    matrix = symmetric(values)
    found = [trace(matrix.__matmul__, matrix[0], num_matvecs=30, seed=seed) for seed in range(200)]
    estimates = torch.tensor([each.value for each in found], dtype=torch.float64)
    spread = estimates.std().item()
    assert abs(estimates.mean().item() - values.sum().item()) < 4 * spread / 200**0.5
    assert sum(each.standard_error for each in found) / 200 == pytest.approx(spread, rel=0.25)
    assert spread < 0.1 * (values.square().sum().item() * 2 / 30) ** 0.5  # far better than random signs alone
    assert {each.num_matvecs for each in found} == {30}


def test_the_trace_of_a_matrix_of_low_rank_is_exact() -> None:
    matrix = symmetric(torch.tensor([3.0, 2.0] + [0.0] * 20, dtype=torch.float64))
    assert trace(matrix.__matmul__, matrix[0], num_matvecs=9).value == pytest.approx(5.0)
    with pytest.raises(ValueError, match="`num_matvecs` must be at least 6, got 5"):
        trace(matrix.__matmul__, matrix[0], num_matvecs=5)


def test_the_density_has_the_spectrum_of_a_small_matrix() -> None:
    values = torch.tensor([-2.0, 0.5, 1.0, 4.0, 9.0], dtype=torch.float64)
    matrix = symmetric(values)
    found = spectral_density(matrix.__matmul__, matrix[0], num_steps=5, num_probes=1)
    torch.testing.assert_close(found.values, values)
    assert found.weights.sum().item() == pytest.approx(1.0)
    assert found.num_matvecs == 5


def test_moments_and_shares_of_a_large_spectrum() -> None:
    values = torch.cat([torch.linspace(0, 1, 190), torch.full((10,), 30.0)]).double()
    matrix = symmetric(values)
    found = spectral_density(matrix.__matmul__, matrix[0], num_steps=20, num_probes=40)
    assert found.share_above(10) == pytest.approx(0.05, rel=0.2)
    assert found.moment(1) == pytest.approx(values.mean().item(), rel=0.2)
    assert found.moment(2) == pytest.approx(values.square().mean().item(), rel=0.2)


def test_the_density_ends_where_the_space_does() -> None:
    matrix = torch.eye(6, dtype=torch.float64) * 3
    found = spectral_density(matrix.__matmul__, matrix[0], num_steps=4, num_probes=2)
    assert found.num_matvecs == 2
    assert found.values.tolist() == pytest.approx([3.0, 3.0])
    with pytest.raises(ValueError, match="at least 1, got 0 and 4"):
        spectral_density(matrix.__matmul__, matrix[0], num_steps=0)
