import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.theory import kinks

SMOOTH = [
    nn.Tanh(),
    nn.GELU(),
    nn.SiLU(),
    nn.Softplus(),
    nn.Softmax(dim=1),
    nn.LayerNorm(4),
    nn.BatchNorm1d(4),
    nn.Dropout(),
]
KINKED = [
    nn.ReLU(),
    nn.ReLU(inplace=True),
    nn.ReLU6(),
    nn.LeakyReLU(),
    nn.PReLU(),
    nn.RReLU(),
    nn.ELU(),
    nn.SELU(),
    nn.CELU(),
    nn.Hardtanh(),
    nn.Hardswish(),
    nn.Hardsigmoid(),
    nn.Hardshrink(),
    nn.Softshrink(),
    nn.Softsign(),
    nn.Threshold(0.1, 0.0),
    nn.MaxPool1d(2),
    nn.AdaptiveMaxPool1d(2),
]


@pytest.mark.parametrize("layer", SMOOTH, ids=str)
def test_smooth_layers_have_none(layer: nn.Module) -> None:
    assert kinks(nn.Sequential(nn.Linear(4, 4), layer), torch.ones(3, 4)) == ()


@pytest.mark.parametrize("layer", KINKED, ids=str)
def test_kinked_layers_are_named(layer: nn.Module) -> None:
    (found,) = kinks(nn.Sequential(nn.Linear(4, 4), layer), torch.ones(3, 4))
    assert found.startswith("1: ")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        return F.relu(self.inner(inputs)) + inputs


def test_functions_are_found_in_the_module_that_calls_them() -> None:
    assert kinks(nn.Sequential(nn.Linear(2, 2), Block(), nn.Tanh()), torch.ones(1, 2)) == ("1: Relu",)


def test_what_no_weight_moves_does_not_count() -> None:
    frozen = nn.Linear(2, 2).requires_grad_(False)
    assert kinks(nn.Sequential(frozen, nn.ReLU(), nn.Linear(2, 2)), torch.ones(1, 2)) == ()


def test_an_unknown_function_counts() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:
            return 2 * x

        @staticmethod
        def backward(ctx: object, grad: Tensor) -> Tensor:
            return 2 * grad

    class Layer(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return Twice.apply(inputs)

    assert kinks(nn.Sequential(nn.Linear(2, 2), Layer()), torch.ones(1, 2)) == ("1: Twice",)


def test_leaves_no_hooks_even_if_the_model_raises() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(3, 2)).train()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        kinks(model, torch.ones(1, 2))
    assert not any(module._forward_hooks for module in model.modules())
    assert model.training
