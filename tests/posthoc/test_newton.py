from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor

from surefoot.posthoc._newton import Local, dense_step, minimise


def quadratic(hessian: Tensor, linear: Tensor) -> Callable[[Tensor], Local]:
    def objective(place: Tensor) -> Local:
        gradient = hessian @ place - linear
        value = float(place @ (hessian @ place) / 2 - linear @ place)
        return Local(value, gradient, dense_step(gradient, hessian))

    return objective


def by_enumeration(hessian: Tensor, linear: Tensor) -> Tensor:
    """The minimum over places >= 0: the one choice of zero coordinates that satisfies the optimality conditions."""
    for free in product([False, True], repeat=len(linear)):
        mask = torch.tensor(free)
        place = torch.zeros_like(linear)
        place[mask] = torch.linalg.solve(hessian[mask][:, mask], linear[mask])
        if place.min() >= 0 and (hessian @ place - linear)[~mask].ge(0).all():
            return place
    raise AssertionError


@pytest.mark.parametrize("seed", range(20))
def test_bounded_quadratics(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(4, 4, generator=generator, dtype=torch.float64) * torch.tensor([1.0, 3.0, 10.0, 30.0])
    hessian, linear = root @ root.T, torch.randn(4, generator=generator, dtype=torch.float64)
    expected = by_enumeration(hessian, linear)
    for start in (torch.zeros_like(linear), torch.ones_like(linear)):
        found = minimise(quadratic(hessian, linear), start, lower=torch.zeros_like(linear))
        torch.testing.assert_close(found.place, expected, rtol=0, atol=1e-6)
        assert found.certificate <= 1e-10
        assert found.num_steps <= 20


def test_leaves_the_bound_where_the_gradient_points_away_from_it() -> None:
    hessian = torch.tensor([[1.0, 30.0], [30.0, 1000.0]], dtype=torch.float64)
    inside = torch.tensor([1.0, 2.0], dtype=torch.float64)
    start = torch.zeros_like(inside)
    found = minimise(quadratic(hessian, hessian @ inside), start, lower=start)
    torch.testing.assert_close(found.place, inside)
    assert found.num_steps <= 6
