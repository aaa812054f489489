import pytest
import torch

from surefoot.kernel import laplacian_pair_sum


@pytest.mark.parametrize("nu", [1e-6, 1e-4, 0.0015, 0.0025, 0.05, 0.2, 0.4, 100.0])
@pytest.mark.parametrize("n", [1, 2, 3, 257])
def test_equals_the_sum_over_all_pairs(nu: float, n: int) -> None:
    generator = torch.Generator().manual_seed(n)
    x = torch.rand(n, generator=generator, dtype=torch.float64)
    x[n // 2 :] = x[: n - n // 2].clone()  # ties
    w = torch.randn(n, generator=generator, dtype=torch.float64)
    dense = (w[:, None] * w * (-(x[:, None] - x).abs() / nu).exp()).sum()
    torch.testing.assert_close(laplacian_pair_sum(x, w, nu=nu), dense, rtol=1e-11, atol=1e-12)


def test_refuses_nu_zero() -> None:
    with pytest.raises(ValueError, match="`nu` must be positive"):
        laplacian_pair_sum(torch.zeros(2), torch.zeros(2), nu=0.0)
