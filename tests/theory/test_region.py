from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import pytest
import torch
from torch import Tensor, nn

from surefoot.theory._chain import Activation, chain
from surefoot.theory._region import Ball, Box


def random(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    scale = 10.0 ** torch.randint(-6, 7, shape, generator=generator)  # digits that cancel
    return torch.randn(*shape, dtype=torch.float64, generator=generator) * scale


def exact(weight: Tensor, bias: Tensor, point: Tensor) -> list[Fraction]:
    x = [Fraction(v) for v in point.tolist()]
    return [
        sum((Fraction(w) * v for w, v in zip(row, x, strict=True)), Fraction(b))
        for row, b in zip(weight.tolist(), bias.tolist(), strict=True)
    ]


@pytest.mark.parametrize("seed", range(30))
def test_linear_images_hold_the_exact_values(seed: int) -> None:
    weight, bias = random(4, 25, seed=seed), random(4, seed=seed + 1000)
    corners = random(2, 25, seed=seed + 2000).sort(dim=0).values
    box = Box(corners[:1], corners[1:]).mapped(weight, bias)
    choices = torch.stack([torch.where(row > 0, corners[0], corners[1]) for row in weight])  # where W x is lowest
    lowest = [exact(weight[k : k + 1], bias[k : k + 1], choice)[0] for k, choice in enumerate(choices)]
    highest = [
        exact(weight[k : k + 1], bias[k : k + 1], torch.where(row > 0, corners[1], corners[0]))[0]
        for k, row in enumerate(weight)
    ]
    middle = exact(weight, bias, corners[0])
    ball = Ball(corners[:1], 0.0, 2.0).mapped(weight, bias)
    for k in range(4):
        assert Fraction(box.lower[0, k].item()) <= lowest[k]
        assert Fraction(box.upper[0, k].item()) >= highest[k]
        assert Fraction(ball.lower[0, k].item()) <= middle[k] <= Fraction(ball.upper[0, k].item())
    size = corners.abs().amax(dim=0) @ weight.abs().T + bias.abs()
    gap = torch.tensor([float(value) for value in lowest], dtype=torch.float64) - box.lower[0]
    assert (gap <= 1e-13 * size).all()  # and not much more than them


ACTIVATIONS: list[tuple[nn.Module, Callable[[Any], Any]]] = [
    (nn.Tanh(), mpmath.tanh),
    (nn.Sigmoid(), lambda x: 1 / (1 + mpmath.exp(-x))),
    (nn.GELU(), lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2),
    (nn.ReLU(), lambda x: max(x, mpmath.mpf(0))),
]


def activation_of(layer: nn.Module) -> Activation:
    return chain(nn.Sequential(nn.Linear(1, 1), layer, nn.Linear(1, 2)))[0].activation


@pytest.mark.parametrize(("layer", "true"), ACTIVATIONS)
def test_activated_boxes_hold_the_true_values(layer: nn.Module, true: Callable[[Any], Any]) -> None:
    x = torch.linspace(-12, 12, 2001, dtype=torch.float64)[:, None]
    box = Box(x, x).activated(activation_of(layer))
    with mpmath.workdps(50):
        for low, at, high in zip(box.lower.flatten(), x.flatten(), box.upper.flatten(), strict=True):
            assert mpmath.mpf(low.item()) <= true(mpmath.mpf(at.item())) <= mpmath.mpf(high.item())
    assert (box.upper - box.lower < 1e-13).all()


@pytest.mark.parametrize("layer", [layer for layer, _ in ACTIVATIONS])
def test_activated_boxes_are_the_range(layer: nn.Module) -> None:
    ends = torch.tensor([[-3.0, -1.0], [-1.0, -0.5], [-0.7, 2.0], [-5.0, 0.1], [1.0, 1.5]], dtype=torch.float64)
    box = Box(ends[:, :1], ends[:, 1:]).activated(activation_of(layer))
    for row, (low, high) in enumerate(ends.tolist()):
        values = layer(torch.linspace(low, high, 100_001, dtype=torch.float64))
        assert box.lower[row].item() == pytest.approx(values.min().item(), abs=1e-9)
        assert box.upper[row].item() == pytest.approx(values.max().item(), abs=1e-9)
