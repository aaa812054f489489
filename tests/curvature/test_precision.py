import copy
import math

import pytest
import torch
from torch import nn

from surefoot.curvature import GGN, Hessian, eigenpairs
from surefoot.losses import CrossEntropy


@pytest.mark.parametrize("margin", [5.0, 12.0, 16.0, 30.0, 60.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_margins_cost_no_digits(margin: float, dtype: torch.dtype) -> None:
    """One weight, two classes: the Gauss-Newton sharpness is 2 x^2 p (1 - p) in closed form."""
    model = nn.Linear(1, 2, bias=False).to(dtype)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[margin / 2], [-margin / 2]]))
    inputs, labels = torch.ones(3, 1, dtype=dtype), torch.zeros(3, dtype=torch.long)
    losses = [CrossEntropy(), nn.CrossEntropyLoss()] if margin < 20 else [CrossEntropy()]  # torch's own loses them
    for loss in losses:
        matrix = GGN(model, loss, inputs, labels)
        (pair,) = eigenpairs(matrix.__matmul__, matrix.like, tolerance=1e-4)
        p = 1 / (1 + math.exp(margin))
        assert pair.value == pytest.approx(2 * p * (1 - p), rel=1e-6, abs=0)


def test_the_hessian_keeps_digits_in_float32() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4))
    with torch.no_grad():
        model[2].weight.mul_(60)
    inputs = torch.randn(6, 3)
    first, second = model(inputs).topk(2, dim=1).values.T
    inputs = inputs[first - second > 13]  # others would drown what is lost here
    assert len(inputs) == 3
    labels = model(inputs).argmax(dim=1)
    double = copy.deepcopy(model).double()
    v = torch.randn(sum(p.numel() for p in model.parameters()))
    for kind in (GGN, Hessian):
        exact = kind(double, nn.CrossEntropyLoss(), inputs.double(), labels) @ v.double()
        found = kind(model, nn.CrossEntropyLoss(), inputs, labels) @ v
        assert float((found.double() - exact).norm() / exact.norm()) < 1e-5


def test_a_loss_with_weights_of_its_own_is_taken_as_it_is() -> None:
    torch.manual_seed(0)
    model, inputs, labels = nn.Linear(3, 4), torch.randn(6, 3), torch.tensor([0, 1, 2, 3, 0, 1])
    loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5, 1.0]))
    v = torch.randn(16)
    exact = GGN(model.double(), loss.double(), inputs.double(), labels) @ v.double()
    found = GGN(model.float(), loss.float(), inputs, labels) @ v
    torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("exponent", [-115, -60, 0, 60, 115])
def test_the_scale_of_a_matrix_does_not_matter(exponent: int) -> None:
    """A power of two is exact: the same search, the same proof, times that power."""
    torch.manual_seed(0)
    factor = torch.randn(40, 40)
    matrix = factor @ factor.T
    plain = eigenpairs(matrix.__matmul__, matrix[0], num=2)
    scaled = eigenpairs(lambda v: torch.ldexp(matrix @ v, torch.tensor(exponent)), matrix[0], num=2)
    for one, other in zip(plain, scaled, strict=True):
        assert other.num_matvecs == one.num_matvecs
        assert math.ldexp(other.value, -exponent) == pytest.approx(one.value, rel=1e-6)
        assert math.ldexp(other.bound, -exponent) == pytest.approx(one.bound, rel=1e-6)
