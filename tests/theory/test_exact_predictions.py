"""What rounding and the range of numbers may not do to a verdict."""

import math

import pytest
import torch
from torch import nn

from surefoot.curvature import GGN, eigenpairs
from surefoot.losses import CrossEntropy
from surefoot.models import MLP
from surefoot.predictions import Predictions
from surefoot.theory import (
    calibration_certificates,
    certificate,
    certified_on_shift,
    curvature_certificates,
    exact_ece,
    exact_predictions,
    margin_lipschitz,
    robust_calibration_certificates,
    robust_margin_floor,
    robust_margins,
    sample_curvature,
    smallest_shift,
    worst_of,
)


def test_exact_predictions_are_those_of_a_float64_copy_and_leave_the_model_alone() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3))
    inputs, labels = torch.randn(9, 4), torch.arange(9) % 3
    model(inputs)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    found = exact_predictions(model, inputs, labels)
    assert model.training
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert found.logits.dtype == torch.float64
    assert torch.equal(found.logits, model.eval().double()(inputs.double()).detach())


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("hidden", [False, True])
def test_large_biases_make_nothing_fail_in_float32(norm: str, hidden: bool) -> None:
    for seed in range(20):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)) if hidden else nn.Sequential(nn.Linear(6, 3))
        with torch.no_grad():
            model[0].bias.add_(1000)
            if hidden:
                model[2].weight.sub_(model[2].weight.mean(dim=1, keepdim=True))
        inputs = torch.randn(10, 6)
        labels = model(inputs).argmax(dim=1)
        predictions = exact_predictions(model, inputs, labels)
        for radius in (0.0, 0.1):
            found = robust_margins(model, inputs, labels, radius=radius, norm=norm)  # type: ignore[arg-type]
            for item in robust_calibration_certificates(
                predictions, found.attacked, radius=radius, floor=found.floor, lipschitz=found.lipschitz
            ):
                assert item.verdict != "fails", item


def test_the_training_set_is_within_0_of_itself_in_float32() -> None:
    for seed in range(60):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(6, 2))
        with torch.no_grad():
            model[0].weight.mul_(40)
        inputs = torch.randn(1, 6)
        labels = model(inputs).argmax(dim=1)
        shift = smallest_shift(inputs, labels, inputs, labels, norm="l2")
        value = exact_ece(exact_predictions(model, inputs, labels))
        found = certified_on_shift(model, inputs, labels, shift, radius=shift.eps, test_ece=value)
        assert found.verdict == "holds"


@pytest.mark.parametrize("num_samples", [1, 5])
def test_equal_samples_meet_the_bounds_in_float32(num_samples: int) -> None:
    for seed in range(30):
        torch.manual_seed(seed)
        model = nn.Linear(6, 2)
        with torch.no_grad():
            model.weight.mul_(1 + 10 * (seed % 4))
        inputs = torch.randn(1, 6).expand(num_samples, -1).contiguous()
        labels = model(inputs).argmax(dim=1)
        matrix = GGN(model, CrossEntropy(), inputs, labels)
        (pair,) = eigenpairs(matrix.__matmul__, matrix.like, tolerance=1e-4)
        for item in curvature_certificates(
            exact_predictions(model, inputs, labels), sample_curvature(model, inputs), pair
        ):
            assert item.verdict != "fails", item


def test_what_float64_cannot_hold_is_not_judged() -> None:
    logits = torch.tensor([[-1.7e308, 1.7e308]], dtype=torch.float64)
    for item in calibration_certificates(Predictions(logits, torch.tensor([0]))):
        assert item.verdict != "fails", item
    assert certificate("x", measured=math.nan, bound=1.0).verdict == "assumption not met"
    nothing = torch.tensor([math.nan, 0.0])
    assert worst_of("x", log_measured=nothing, log_bound=torch.zeros(2)).holds is None


def test_weights_that_move_nothing_are_flat_however_wrong_they_are() -> None:
    model = nn.Linear(2, 2)
    model.bias.requires_grad_(False)
    with torch.no_grad():
        model.bias.copy_(torch.tensor([-800.0, 0.0]))
        model.weight.zero_()
    inputs, labels = torch.zeros(1, 2), torch.tensor([0])
    found = curvature_certificates(exact_predictions(model, inputs, labels), sample_curvature(model, inputs), 0.0)
    assert all(item.verdict != "fails" for item in found)
    assert found[1].bound == 0


@pytest.mark.parametrize("scales", [(1e200, 1e-200), (1e-200, 1e200)])
def test_constants_survive_small_and_large_layers(scales: tuple[float, float]) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2)).double()
    labels = torch.tensor([0])
    plain = margin_lipschitz(model, labels, norm="l2")
    with torch.no_grad():
        model[0].weight.mul_(scales[0])
        model[2].weight.mul_(scales[1])
    torch.testing.assert_close(margin_lipschitz(model, labels, norm="l2"), plain)


def test_weights_too_large_prove_nothing() -> None:
    model = MLP(input_shape=(2,), num_classes=2, widths=(3,)).double()
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(1.5e308)
    inputs, labels = torch.ones(1, 2, dtype=torch.float64), torch.tensor([0])
    assert float(robust_margin_floor(model, inputs, labels, radius=0.1, norm="l2")) == -math.inf
    assert float(margin_lipschitz(model, labels, norm="l2")) == math.inf
