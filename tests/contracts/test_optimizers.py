"""What every optimizer in the registry promises."""

import copy

import pytest
import torch
from torch import Tensor, nn

from surefoot.optim import OPTIMIZERS

ALL = pytest.mark.parametrize("name", OPTIMIZERS)


class Bowl:
    """A quadratic with its minimum at 1, and a count of how often it was asked."""

    def __init__(self, name: str, lr: float = 0.1) -> None:
        self.weights = nn.Parameter(torch.tensor([3.0, -2.0]))
        self.optimizer = OPTIMIZERS[name]([self.weights], lr=lr)
        self.calls = 0

    def closure(self) -> Tensor:
        self.calls += 1
        self.optimizer.zero_grad()
        loss = ((self.weights - 1).square() * torch.tensor([1.0, 2.0])).sum()
        loss.backward()
        return loss.detach()

    def step(self) -> float:
        return float(self.optimizer.step(self.closure))


@ALL
def test_a_step_returns_the_loss_before_it_and_goes_down(name: str) -> None:
    bowl = Bowl(name)
    assert bowl.step() == 22.0
    for _ in range(300):
        bowl.step()
    assert bowl.calls == 301
    torch.testing.assert_close(bowl.weights.detach(), torch.ones(2), atol=0.05, rtol=0)


@ALL
def test_the_state_round_trips_bit_for_bit(name: str) -> None:
    first = Bowl(name)
    for _ in range(5):
        first.step()
    second = Bowl(name)
    with torch.no_grad():
        second.weights.copy_(first.weights)
    second.optimizer.load_state_dict(copy.deepcopy(first.optimizer.state_dict()))
    for _ in range(5):
        first.step()
        second.step()
    assert torch.equal(first.weights, second.weights)


@ALL
def test_a_failing_closure_leaves_the_weights_alone(name: str) -> None:
    bowl = Bowl(name)
    bowl.step()
    before = bowl.weights.detach().clone()

    def failing() -> Tensor:
        bowl.closure()
        raise RuntimeError("no luck")

    with pytest.raises(RuntimeError, match="no luck"):
        bowl.optimizer.step(failing)
    assert torch.equal(bowl.weights, before)


def test_gd_by_hand() -> None:
    bowl = Bowl("gd", lr=0.25)
    bowl.step()
    assert bowl.weights.tolist() == [3.0 - 0.25 * 4.0, -2.0 + 0.25 * 12.0]
