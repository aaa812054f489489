import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from references.robust import grid_margin, linear_margin
from surefoot.attack import Norm, worst_shift
from surefoot.models import CNN, MLP
from surefoot.predictions import Predictions
from surefoot.theory import NoSoundBound, margin_lipschitz, robust_margin_floor
from surefoot.theory._chain import GELU

NORMS: list[Norm] = ["l2", "linf"]
ACTIVATIONS: list[type[nn.Module]] = [nn.Tanh, nn.ReLU, nn.GELU, nn.Sigmoid, nn.Identity]


def network(*widths: int, activation: type[nn.Module] = nn.Tanh, seed: int = 0, scale: float = 1.0) -> nn.Sequential:
    torch.manual_seed(seed)
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), activation()]
    model = nn.Sequential(*layers[:-1]).double()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(scale)
    return model


def points(num_samples: int, *shape: int, num_classes: int, seed: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(num_samples, *shape, dtype=torch.float64, generator=generator)
    return inputs, torch.randint(0, num_classes, (num_samples,), generator=generator)


def clean_margin(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    with torch.no_grad():
        return Predictions(model(inputs), labels).margin


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("num_classes", [2, 5])
def test_linear_models_have_their_closed_form(norm: Norm, num_classes: int) -> None:
    model = network(6, num_classes)
    inputs, labels = points(40, 2, 3, num_classes=num_classes)
    exact = linear_margin(model[1].weight, model[1].bias, inputs, labels, radius=0.7, norm=norm)
    floor = robust_margin_floor(model, inputs, labels, radius=0.7, norm=norm)
    torch.testing.assert_close(floor, exact, rtol=1e-12, atol=1e-12)
    assert (floor <= exact).all()


def test_constants_by_hand() -> None:
    first, last = nn.Linear(2, 2), nn.Linear(2, 3)
    with torch.no_grad():
        first.weight.copy_(torch.tensor([[2.0, 0.0], [0.0, 1.0]]))  # spectral norm 2
        last.weight.copy_(torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, 4.0]]))  # ||w_0 - w_1|| = 5, 3 and 4 the others
    model, labels = nn.Sequential(first, nn.Sigmoid(), last), torch.tensor([0, 1, 2, 2])
    found = margin_lipschitz(model, labels, norm="l2")
    torch.testing.assert_close(found, torch.tensor([5, 5, 4, 4]).double() * 2 / 4)
    # |w_0 - w_1| |W| 1 = 3 * 2 + 4 * 1 = 10; |w_0 - w_2| gives 6, |w_1 - w_2| 4; sqrt(2) times the others is 10 sqrt(2)
    found = margin_lipschitz(model, labels, norm="linf")
    torch.testing.assert_close(found, torch.tensor([10, 10, 6, 6]).double() / 4)


def test_the_slope_of_gelu_is_its_largest() -> None:
    x = torch.linspace(-6, 6, 1_200_001, dtype=torch.float64)
    slope = torch.nn.functional.gelu(x).diff() / x.diff()
    assert GELU.slope == pytest.approx(1.1289, abs=1e-4)
    assert slope.abs().max() <= GELU.slope
    assert slope.abs().max() > GELU.slope - 1e-6
    assert abs(float(x[torch.nn.functional.gelu(x).argmin()]) - GELU.lowest_at) < 1e-5


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("num_features", [1, 2])
def test_a_dense_grid_lies_between_floor_and_attack(norm: Norm, activation: type[nn.Module], num_features: int) -> None:
    model = network(num_features, 6, 6, 3, activation=activation, scale=2.0)
    inputs, labels = points(20, num_features, num_classes=3)
    per_axis = 2001 if num_features == 1 else 101
    grid = grid_margin(model, inputs, labels, radius=0.4, norm=norm, per_axis=per_axis)
    attack = worst_shift(model, inputs, labels, radius=0.4, norm=norm).margin
    floor = robust_margin_floor(model, inputs, labels, radius=0.4, norm=norm)
    assert (floor <= grid).all()
    spacing = 0.8 / (per_axis - 1)  # no point of the ball is further from the grid than this
    assert (attack >= grid - spacing * margin_lipschitz(model, labels, norm=norm)).all()


@given(
    st.integers(0, 10_000),
    st.sampled_from(NORMS),
    st.sampled_from(ACTIVATIONS),
    st.lists(st.integers(1, 8), max_size=3),
    st.floats(0, 2),
    st.sampled_from([0.3, 1.0, 4.0]),
)
@settings(max_examples=80, deadline=None)
def test_floor_attack_and_clean_margin_are_in_order(
    seed: int, norm: Norm, activation: type[nn.Module], widths: list[int], radius: float, scale: float
) -> None:
    model = network(4, *widths, 3, activation=activation, seed=seed, scale=scale)
    inputs, labels = points(6, 4, num_classes=3, seed=seed)
    floor = robust_margin_floor(model, inputs, labels, radius=radius, norm=norm)
    attack = worst_shift(model, inputs, labels, radius=radius, norm=norm, num_steps=8).margin
    clean = clean_margin(model, inputs, labels)
    rounding = 1e-13 * (1 + clean.abs())  # of the two forward passes, which the floor does not know of
    assert (floor <= attack + rounding).all()
    assert (attack <= clean).all()
    lipschitz = margin_lipschitz(model, labels, norm=norm)
    assert (floor >= clean - radius * lipschitz * (1 + 1e-8) - 1e-10 * (1 + clean.abs())).all()


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_no_radius_gives_the_clean_margin(norm: Norm, activation: type[nn.Module]) -> None:
    model = network(4, 9, 9, 3, activation=activation, scale=2.0)
    inputs, labels = points(30, 4, num_classes=3)
    floor = robust_margin_floor(model, inputs, labels, radius=0.0, norm=norm)
    clean = clean_margin(model, inputs, labels)
    torch.testing.assert_close(floor, clean, rtol=1e-12, atol=1e-12)
    assert (floor < clean).all()  # by what rounding may add


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_no_two_points_differ_by_more_than_the_constant(norm: Norm, activation: type[nn.Module]) -> None:
    model = network(3, 7, 4, activation=activation, scale=2.0)
    inputs, labels = points(2000, 3, num_classes=4)
    shifts = 0.01 * torch.randn_like(inputs)
    change = (clean_margin(model, inputs + shifts, labels) - clean_margin(model, inputs, labels)).abs()
    ratio = change / shifts.norm(p={"l2": 2, "linf": math.inf}[norm], dim=1)
    constant = margin_lipschitz(model, labels, norm=norm)
    assert (ratio <= constant).all()
    assert ratio.max() > 0.1 * constant.max()  # not for being astronomic


def test_a_small_radius_is_certified() -> None:
    model = network(5, 10, 2, scale=2.0)
    inputs, _ = points(50, 5, num_classes=2)
    labels = model(inputs).argmax(dim=1)
    for norm in NORMS:
        floor = robust_margin_floor(model, inputs, labels, radius=0.01, norm=norm)
        assert (floor > 0).double().mean() > 0.8


def test_intervals_and_constants_each_win_somewhere() -> None:
    narrow = network(1, 4, 2, activation=nn.Sigmoid, scale=5.0)  # saturated: the local slopes are small
    inputs, labels = torch.full((1, 1), 3.0, dtype=torch.float64), torch.tensor([0])
    by_constant = clean_margin(narrow, inputs, labels) - 0.5 * margin_lipschitz(narrow, labels, norm="l2")
    assert robust_margin_floor(narrow, inputs, labels, radius=0.5, norm="l2") > by_constant + 0.1
    wide = network(64, 100, 100, 2)
    inputs, labels = points(1, 64, num_classes=2)
    by_constant = clean_margin(wide, inputs, labels) - 0.1 * margin_lipschitz(wide, labels, norm="linf")
    floor = robust_margin_floor(wide, inputs, labels, radius=0.1, norm="linf")
    torch.testing.assert_close(floor, by_constant, rtol=1e-8, atol=1e-8)


def test_reads_every_way_to_write_the_same_network() -> None:
    torch.manual_seed(0)
    model = MLP(input_shape=(2, 2), num_classes=3, widths=(5,))  # float32
    inputs, labels = points(6, 2, 2, num_classes=3)
    layers = list(model.layers)
    nested = nn.Sequential(
        nn.Sequential(layers[0], nn.Identity()), layers[1], nn.Sequential(*layers[2:]), nn.Identity()
    )
    floors = [robust_margin_floor(m, inputs.float(), labels, radius=0.1, norm="l2") for m in (model, nested)]
    assert torch.equal(*floors)
    assert floors[0].dtype == torch.float64
    twice = nn.Sequential(*layers[:2], nn.ReLU(), nn.Tanh(), layers[3]).double()
    floor = robust_margin_floor(twice, inputs, labels, radius=0.3, norm="linf")
    assert (floor <= worst_shift(twice, inputs, labels, radius=0.3, norm="linf").margin).all()
    shared, square = nn.Sigmoid(), nn.Linear(5, 5)
    repeated = nn.Sequential(*layers[:2], shared, square, shared, square, shared, layers[3]).double()
    floor = robust_margin_floor(repeated, inputs, labels, radius=0.0, norm="linf")
    torch.testing.assert_close(floor, clean_margin(repeated, inputs, labels))
    no_bias = nn.Sequential(nn.Linear(4, 3, bias=False)).double()
    floor = robust_margin_floor(no_bias, inputs.flatten(1), labels, radius=0.0, norm="l2")
    torch.testing.assert_close(floor, clean_margin(no_bias, inputs.flatten(1), labels))


class Doubled(nn.Linear):
    def forward(self, inputs: Tensor) -> Tensor:
        return 2 * super().forward(inputs)


def hooked() -> nn.Module:
    layer = nn.Linear(4, 3)
    layer.register_forward_hook(lambda module, inputs, output: 2 * output)
    return nn.Sequential(layer)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (CNN(input_shape=(1, 8, 8), num_classes=3), "a CNN, has no sound bound"),
        (nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)), "Layer '1', a BatchNorm1d,"),
        (nn.Sequential(nn.Linear(4, 4), nn.GELU(approximate="tanh"), nn.Linear(4, 3)), "Layer '1', a GELU,"),
        (nn.Sequential(nn.Flatten(start_dim=0), nn.Linear(4, 3)), "Layer '0', a Flatten,"),
        (nn.Sequential(nn.Tanh(), nn.Linear(4, 3)), "Layer '0', a Tanh, .* a linear map must come before it"),
        (nn.Sequential(nn.Sequential(Doubled(4, 3))), "Layer '0.0', a Doubled,"),
        (nn.Sequential(nn.Linear(4, 3), nn.Tanh()), "it must end with a linear map"),
        (nn.Sequential(nn.Flatten()), "it must end with a linear map"),
        (nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3)), "a ParametrizedLinear,"),
        (hooked(), "Layer '0', a Linear, .* a hook may change"),
    ],
)
def test_refuses_what_it_cannot_prove(model: nn.Module, said: str) -> None:
    inputs, labels = points(2, 4, num_classes=3)
    with pytest.raises(NoSoundBound, match=f"{said}.*attack only: not a proof"):
        robust_margin_floor(model, inputs, labels, radius=0.1, norm="l2")
    with pytest.raises(ValueError, match=said):
        margin_lipschitz(model, labels, norm="l2")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"radius": -1.0}, "`radius` must be at least 0 and finite, got -1.0"),
        ({"radius": math.inf}, "`radius` must be at least 0 and finite, got inf"),
        ({"norm": "l_2"}, "Unknown norm 'l_2'. Did you mean 'l2'"),
        ({"inputs": torch.zeros(2, 5)}, r"`inputs` must have shape \[N, ...\] with 4 features each"),
        ({"inputs": torch.zeros(3, 4)}, r"`inputs` must have shape .* got \[3, 4\] for labels of shape \[2\]"),
        ({"inputs": torch.full((2, 4), math.nan)}, "`inputs` must be finite"),
        ({"labels": torch.tensor([0, 3])}, "`labels` must lie in 0..2, got values from 0 to 3"),
        ({"labels": torch.tensor([0.0, 1.0])}, "`labels` must be integers"),
    ],
)
def test_bad_requests_are_refused(options: dict, message: str) -> None:  # type: ignore[type-arg]
    inputs, labels = points(2, 4, num_classes=3)
    request = {"inputs": inputs, "labels": labels, "radius": 0.1, "norm": "l2"} | options
    with pytest.raises(ValueError, match=message):
        robust_margin_floor(network(4, 3), request.pop("inputs"), request.pop("labels"), **request)


def test_broken_weights_are_refused() -> None:
    model = network(4, 3)
    with torch.no_grad():
        model[1].weight[0, 0] = math.nan
    with pytest.raises(ValueError, match="`model` must have finite weights, got NaN or inf in layer '1'"):
        margin_lipschitz(model, torch.tensor([0]), norm="l2")
    with pytest.raises(ValueError, match="`model` must have at least 2 logits, got 1"):
        margin_lipschitz(network(4, 1), torch.tensor([0]), norm="l2")
