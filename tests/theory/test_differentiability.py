from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.models import MODELS
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
    nn.Mish(),
    nn.LogSigmoid(),
    nn.LogSoftmax(dim=1),
    nn.GroupNorm(2, 4),
    nn.RMSNorm(4),
    nn.AvgPool1d(2),
    nn.ConstantPad1d(1, 0.0),
    nn.Bilinear(4, 4, 2),
    nn.TransformerEncoderLayer(4, 2, 8, activation="gelu"),
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


FIRST = torch.zeros(3, 4, dtype=torch.int64)
SMOOTH_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "matmul": lambda h: h @ h.mT,
    "einsum": lambda h: torch.einsum("ij,kj->ik", h, h),
    "bmm": lambda h: torch.bmm(h[None], h.T[None])[0],
    "arithmetic": lambda h: (2 - h) * h / 3 - h.neg(),
    "div": lambda h: h / (1 + h.exp()),
    "by data of either sign": lambda h: h / torch.tensor([-1.0, 1.0, 2.0, -3.0]),
    "reciprocal": lambda h: 1 / h.exp(),
    "square": lambda h: h**2 + h.square() + h**3,
    "inverse square": lambda h: h.exp() ** -2,
    "sqrt": lambda h: (1 + h**2).sqrt(),
    "power": lambda h: (1 + h**2) ** 0.75,
    "norm": lambda h: torch.linalg.vector_norm(1 + h**2, dim=1),
    "exp and log": lambda h: (h.exp() + h.sin() + 2).log() + h.cos() + h.erf() + h.expm1(),
    "logsumexp": lambda h: h.logsumexp(dim=1),
    "views": lambda h: h.reshape(2, 6).T.flatten().view(3, 4).permute(1, 0).unsqueeze(0).squeeze(0).contiguous(),
    "parts": lambda h: (
        torch.cat([h[:, 1:], h[:, :1]], dim=1) + torch.stack([h[0], *h[1:].unbind()]) + h[:, [3, 2, 1, 0]]
    ),
    "fixed index": lambda h: h.gather(1, FIRST) + h.index_select(1, FIRST[0]) + h.scatter_add(1, FIRST, h),
    "expand": lambda h: h[:1].expand(3, 4).sum(dim=0) + h.mean(dim=0),
    "pad": lambda h: F.pad(h, (1, 2)),
    "casts": lambda h: h.double().bfloat16().float(),
    "embedding": lambda h: F.embedding(FIRST, h),
    "attention": lambda h: F.scaled_dot_product_attention(h[None, None], h[None, None], h[None, None], is_causal=True),
    "convolution": lambda h: F.conv1d(h[None], h[:, :, None].transpose(0, 1)[:, :3]),
    "shapes alone": lambda h: h * torch.ones_like(h) + h.new_zeros(h.shape),
    "a mask of positions": lambda h: h * (torch.arange(4) > 1),
}
KINKED_FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "fmax": (lambda h: torch.fmax(h, torch.zeros(())), "Fmax"),
    "fmin": (lambda h: torch.fmin(h, torch.zeros(())), "Fmin"),
    "masked_fill": (lambda h: h.masked_fill(h < 0, 0), "MaskedFill"),
    "where": (lambda h: torch.where(h < 0, 0, h), "Where"),
    "frac": (lambda h: h.frac(), "Frac"),
    "norm 1": (lambda h: torch.linalg.vector_norm(h, 1, dim=1), "LinalgVectorNorm"),
    "norm inf": (lambda h: torch.linalg.vector_norm(h, torch.inf, dim=1), "LinalgVectorNorm"),
    "norm at 0": (lambda h: torch.linalg.vector_norm(h * torch.arange(3.0)[:, None], dim=1), "LinalgVectorNorm"),
    "huber": (lambda h: F.huber_loss(h, torch.zeros(3, 4), reduction="none"), "HuberLoss"),
    "smooth l1": (lambda h: F.smooth_l1_loss(h, torch.zeros(3, 4), reduction="none"), "SmoothL1Loss"),
    "nanmedian": (lambda h: h.nanmedian(dim=1).values, "Nanmedian"),
    "fmod": (lambda h: h.fmod(1), "Fmod"),
    "remainder": (lambda h: h.remainder(1), "Remainder"),
    "copysign": (lambda h: torch.copysign(h, torch.ones(())), "Copysign"),
    "amax": (lambda h: torch.zeros(3, 4).scatter_reduce(1, FIRST, h, "amax"), "ScatterReduce"),
    "cdist": (lambda h: torch.cdist(h, torch.zeros(3, 4), p=1), "Cdist"),
    "floor division": (lambda h: torch.div(h, 2, rounding_mode="floor") + h, "Div"),
    "abs as a root": (lambda h: (h * torch.linspace(0, 1, 4)).square().sqrt(), "Sqrt"),
    "abs as a power": (lambda h: (h * torch.linspace(0, 1, 4)).square() ** 0.5, "Pow"),
    "pole": (lambda h: 1 / (h - h.mean()), "Reciprocal"),
    "sorted by argsort": (lambda h: h.gather(1, h.argsort(dim=1)), "Gather, steered by the weights"),
    "indexed by argmax": (lambda h: h[:, h.sum(dim=0).argmax()], "Select, steered by the weights"),
    "mask": (lambda h: h * (h > 0), "Mul, steered by the weights"),
    "mask of a mask": (lambda h: h + (h > 0).float().cumsum(dim=1), "Add, steered by the weights"),
    "written mask": (lambda h: h * written(h > 0), "Mul, steered by the weights"),
    "detached": (lambda h: h * h.detach(), "Mul, steered by the weights"),
    "in place on a part": (lambda h: (part := h.clone(), part[:, 0].relu_())[0], "CopySlices"),
}


def written(where: Tensor) -> Tensor:
    mask = torch.zeros(where.shape)
    mask[where] = 1
    return mask


class Applied(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, inputs: Tensor) -> Tensor:
        return self.function(inputs)


@pytest.mark.parametrize("name", SMOOTH_FUNCTIONS)
def test_smooth_functions_have_none(name: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), Applied(SMOOTH_FUNCTIONS[name]))
    assert kinks(model, torch.randn(3, 5)) == ()


@pytest.mark.parametrize("name", KINKED_FUNCTIONS)
def test_kinked_functions_are_named(name: str) -> None:
    torch.manual_seed(0)
    function, called = KINKED_FUNCTIONS[name]
    assert kinks(nn.Sequential(nn.Linear(5, 4), Applied(function)), torch.randn(3, 5)) == (f"1: {called}",)


TINY: dict[str, tuple[dict[str, Any], bool]] = {
    "cnn": ({"widths": (3,)}, False),
    "mlp": ({"widths": (4, 3)}, True),
    "pyramidnet": ({"depth": 8, "alpha": 6}, False),
    "resnet": ({}, False),
    "resnet18": ({}, False),
    "resnet50": ({}, False),
    "vit": ({"dim": 8, "depth": 1, "heads": 2, "mlp": 8}, True),
    "wide_resnet": ({"depth": 10, "width": 1}, False),
}


@pytest.mark.parametrize("name", [name for name in MODELS if name != "text_transformer"])  # takes no images
def test_models(name: str) -> None:
    options, smooth = TINY[name]
    found = kinks(MODELS[name](input_shape=(3, 8, 8), num_classes=3, **options), torch.randn(2, 3, 8, 8))
    assert {kink.split(": ")[1] for kink in found} <= {"Relu", "MaxPool2DWithIndices"}
    assert bool(found) != smooth


@pytest.mark.parametrize(("activation", "smooth"), [("tanh", True), ("gelu", True), ("relu", False)])
def test_activations_of_the_perceptron(activation: str, smooth: bool) -> None:
    model = MODELS["mlp"](input_shape=(4,), num_classes=2, widths=(3,), activation=activation)
    assert bool(kinks(model, torch.ones(2, 4))) != smooth


def test_a_branch_that_the_output_does_not_use_does_not_count() -> None:
    class Aside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.aside = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU())

        def forward(self, inputs: Tensor) -> Tensor:
            self.aside(inputs)
            return self.body(inputs)

    assert kinks(Aside(), torch.ones(1, 2)) == ()


@pytest.mark.parametrize("layer", SMOOTH, ids=str)
def test_smooth_layers_have_none(layer: nn.Module) -> None:
    twice = isinstance(layer, nn.Bilinear)
    model = nn.Sequential(nn.Linear(4, 4), Applied(lambda h: layer(h, h)) if twice else layer)
    assert kinks(model, torch.ones(3, 4)) == ()


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
