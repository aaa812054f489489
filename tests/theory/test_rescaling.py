"""Copies of ReLU networks: what a balance may not change, and what it must."""

import pytest
import torch
from torch import nn

from references.dense import dense_ggn
from surefoot.losses import CrossEntropy
from surefoot.theory import decoupled, rescaled
from surefoot.theory.rescaling import linear_layers


def network(*, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).double()


def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(30, 3, generator=generator, dtype=torch.float64), torch.randint(3, (30,), generator=generator)


def top(model: nn.Module) -> float:
    return float(torch.linalg.eigvalsh(dense_ggn(model, CrossEntropy(), *data()))[-1])


def test_a_balance_changes_curvature_and_no_output() -> None:
    model, (inputs, _) = network(), data()
    torch.testing.assert_close(rescaled(model, balance=9.0)(inputs), model(inputs))
    assert top(rescaled(model, balance=9.0)) > 5 * top(model)
    torch.testing.assert_close(rescaled(model, logits=4.0, balance=0.3)(inputs), 4 * model(inputs))


def test_smaller_margins_at_one_sharpness_by_the_dense_matrix() -> None:
    model = network()
    assert top(rescaled(model, logits=0.25)) < 0.9 * top(model)
    found = decoupled(model, CrossEntropy(), *data(), logits=0.25)
    assert found.same
    assert found.balance > 1
    assert found.ratio == pytest.approx(1, abs=0.01)
    assert top(found.model) / top(model) == pytest.approx(1, abs=0.012)
    torch.testing.assert_close(found.model(data()[0]), 0.25 * model(data()[0]))


def test_a_network_as_it_is_needs_no_balance() -> None:
    found = decoupled(network(), CrossEntropy(), *data(), logits=1.0)
    assert (found.balance, found.ratio, found.same) == (1.0, 1.0, True)


def test_where_no_balance_is_flat_enough_it_says_so() -> None:
    model = network()
    found = decoupled(model, CrossEntropy(), *data(), logits=4.0)
    assert not found.same
    assert found.ratio > 1.01
    least = min(top(rescaled(model, logits=4.0, balance=b)) for b in torch.logspace(-2, 2, 200).tolist())
    assert top(found.model) == pytest.approx(least, rel=0.02)


@pytest.mark.parametrize("other", [nn.Tanh(), nn.Dropout(0.5), nn.BatchNorm1d(6)])
def test_what_is_not_homogeneous_is_refused(other: nn.Module) -> None:
    with pytest.raises(ValueError, match=f"linear layers with ReLU between them, got {type(other).__name__}"):
        linear_layers(nn.Sequential(nn.Linear(3, 6), other, nn.Linear(6, 3)))
    with pytest.raises(ValueError, match="got 1 linear layers"):
        linear_layers(nn.Linear(3, 2))
    with pytest.raises(ValueError, match="must be positive, got -1"):
        rescaled(network(), logits=-1.0)
