import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from references.robust import grid_margin, linear_margin
from surefoot.attack import Norm, quick_shift, worst_shift
from surefoot.models import MLP
from surefoot.predictions import Predictions

NORMS: list[Norm] = ["l2", "linf"]


def linear(num_features: int, num_classes: int, *, seed: int = 0) -> nn.Linear:
    torch.manual_seed(seed)
    return nn.Linear(num_features, num_classes).double()


def points(num_samples: int, *shape: int, num_classes: int, seed: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(num_samples, *shape, dtype=torch.float64, generator=generator)
    return inputs, torch.randint(0, num_classes, (num_samples,), generator=generator)


def sizes(shifts: Tensor, norm: Norm) -> Tensor:
    return shifts.double().flatten(1).norm(p={"l2": 2, "linf": math.inf}[norm], dim=1)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("num_classes", [2, 5])
def test_is_exact_for_linear_models_without_a_descent(norm: Norm, num_classes: int) -> None:
    model = linear(6, num_classes)
    inputs, labels = points(40, 6, num_classes=num_classes)
    found = worst_shift(model, inputs, labels, radius=0.7, norm=norm, num_steps=0, num_restarts=0)
    exact = linear_margin(model.weight, model.bias, inputs, labels, radius=0.7, norm=norm)
    torch.testing.assert_close(found.margin, exact, rtol=1e-12, atol=1e-12)
    after = worst_shift(model, inputs, labels, radius=0.7, norm=norm).margin
    torch.testing.assert_close(after, exact, rtol=1e-12, atol=1e-12)


def test_the_nearest_rival_is_not_always_the_worst() -> None:
    model = nn.Linear(1, 3, bias=True).double()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.0], [0.0], [10.0]]))
        model.bias.copy_(torch.tensor([2.0, 1.0, 0.0]))  # at 0 the rival is 1, by 1; at 1 it is 2, by -8
    inputs, labels = torch.zeros(1, 1, dtype=torch.float64), torch.tensor([0])
    found = worst_shift(model, inputs, labels, radius=1.0)
    assert found.margin.item() == pytest.approx(-8, abs=1e-12)
    assert found.inputs.item() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("activation", ["tanh", "relu", "gelu"])
@pytest.mark.parametrize("num_features", [1, 2])
def test_finds_what_a_dense_grid_finds(norm: Norm, activation: str, num_features: int) -> None:
    torch.manual_seed(3)
    model = MLP(input_shape=(num_features,), num_classes=3, widths=(8, 8), activation=activation).double()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(2)
    inputs, labels = points(20, num_features, num_classes=3)
    per_axis = 2001 if num_features == 1 else 151
    grid = grid_margin(model, inputs, labels, radius=0.8, norm=norm, per_axis=per_axis)
    found = worst_shift(model, inputs, labels, radius=0.8, norm=norm, num_steps=50, num_restarts=4).margin
    torch.testing.assert_close(found, grid, rtol=0, atol=1e-3)  # of the grid above, of the last steps below
    assert Predictions(model(inputs).detach(), labels).margin.mean() > found.mean() + 0.1


@given(st.integers(0, 10_000), st.sampled_from(NORMS), st.floats(0, 3), st.booleans())
@settings(max_examples=40, deadline=None)
def test_stays_in_the_ball_and_below_the_clean_margin(seed: int, norm: Norm, radius: float, double: bool) -> None:
    torch.manual_seed(seed)
    dtype = torch.float64 if double else torch.float32
    model = MLP(input_shape=(2, 3), num_classes=4, widths=(5,), activation="relu").to(dtype)
    inputs, labels = points(5, 2, 3, num_classes=4, seed=seed)
    inputs = (10 * inputs).to(dtype)
    found = worst_shift(model, inputs, labels, radius=radius, norm=norm, num_steps=5)
    assert (sizes(found.inputs.double() - inputs.double(), norm) <= radius * (1 + 1e-15)).all()
    with torch.no_grad():
        clean, there = (Predictions(model(x), labels).margin for x in (inputs, found.inputs))
    assert (found.margin <= clean).all()
    torch.testing.assert_close(found.margin, there, rtol=1e-5, atol=1e-5)  # the margin is that of the inputs given
    if radius == 0:
        assert torch.equal(found.inputs, inputs)
        assert torch.equal(found.margin, clean)


def test_a_larger_ball_is_worse_and_more_work_is_not_better() -> None:
    torch.manual_seed(0)
    model = MLP(input_shape=(5,), num_classes=3, widths=(20,)).double()
    inputs, labels = points(30, 5, num_classes=3)
    means = [worst_shift(model, inputs, labels, radius=r).margin.mean() for r in (0.1, 0.5, 2.0)]
    assert means[0] > means[1] + 0.01 > means[2] + 0.02
    little = worst_shift(model, inputs, labels, radius=2.0, num_steps=0, num_restarts=0).margin
    much = worst_shift(model, inputs, labels, radius=2.0, num_restarts=3).margin
    assert (much <= little).all()
    assert (much < little - 1e-4).any()


@pytest.mark.parametrize("norm", NORMS)
def test_neighbours_and_chunks_do_not_matter(norm: Norm) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 6), nn.Dropout(0.5), nn.Tanh(), nn.Linear(6, 3)).double()
    inputs, labels = points(11, 4, num_classes=3)
    with torch.no_grad():
        model[1].weight.mul_(5)  # several valleys: where the search starts decides where it ends
    search: dict[str, Any] = {"radius": 2.0, "norm": norm, "num_steps": 1, "num_restarts": 3}
    whole = worst_shift(model, inputs, labels, **search)
    parts = worst_shift(model, inputs, labels, chunk_size=4, **search)
    order = torch.randperm(11, generator=torch.Generator().manual_seed(0))
    shuffled = worst_shift(model, inputs[order], labels[order], **search)
    torch.testing.assert_close(parts.margin, whole.margin, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(shuffled.margin, whole.margin[order], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(parts.inputs, whole.inputs, rtol=1e-6, atol=1e-6)


def test_leaves_everything_as_found() -> None:
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 3)).double()
    model.train()
    model[1].eval()
    inputs, labels = points(6, 4, num_classes=3)
    for p in model.parameters():
        p.grad = torch.full_like(p, 7.0)
    before, buffers = inputs.clone(), [b.clone() for b in model.buffers()]
    state = torch.get_rng_state()
    with torch.no_grad():
        found = worst_shift(model, inputs, labels, radius=0.5)
        assert not torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), state)
    assert [module.training for module in model] == [True, False, True]
    assert all(bool((p.grad == 7).all()) for p in model.parameters() if p.grad is not None)
    assert all(torch.equal(a, b) for a, b in zip(model.buffers(), buffers, strict=True))
    assert torch.equal(inputs, before)
    assert not found.inputs.requires_grad
    assert not found.margin.requires_grad
    assert found.margin.dtype == torch.float64


def test_a_flat_spot_is_left_by_a_restart() -> None:
    class Bump(nn.Module):  # no slope at 0, where the margin is highest
        def forward(self, inputs: Tensor) -> Tensor:
            margin = 1 - inputs.square().sum(dim=1)
            return torch.stack([margin, torch.zeros_like(margin)], dim=1)

    inputs, labels = torch.zeros(2, 3, dtype=torch.float64), torch.zeros(2, dtype=torch.int64)
    stuck = worst_shift(Bump(), inputs, labels, radius=2.0, num_restarts=0).margin
    free = worst_shift(Bump(), inputs, labels, radius=2.0, num_restarts=1).margin
    torch.testing.assert_close(stuck, torch.ones(2, dtype=torch.float64))
    torch.testing.assert_close(free, torch.full((2,), -3.0, dtype=torch.float64))


def test_the_seed_decides() -> None:
    torch.manual_seed(0)
    model = MLP(input_shape=(4,), num_classes=3, widths=(30, 30), activation="relu").double()
    inputs, labels = points(40, 4, num_classes=3)
    first, again, other = (
        worst_shift(model, inputs, labels, radius=3.0, num_steps=2, num_restarts=2, seed=s).inputs for s in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_tiny_gradients_have_a_direction() -> None:
    model = linear(3, 2)
    with torch.no_grad():
        model.weight.mul_(1e-200)  # its squares are 0
        model.bias.zero_()
    inputs, labels = points(4, 3, num_classes=2)
    found = worst_shift(model, inputs, labels, radius=1.0).margin
    exact = linear_margin(model.weight * 1e200, model.bias, inputs, labels, radius=1.0, norm="l2")
    torch.testing.assert_close(found * 1e200, exact)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"radius": -0.1}, "`radius` must be at least 0 and finite, got -0.1"),
        ({"radius": math.nan}, "`radius` must be"),
        ({"norm": "linfty"}, "Unknown norm 'linfty'. Did you mean 'linf'"),
        ({"num_steps": -1}, "`num_steps` must be at least 0, got -1"),
        ({"num_restarts": -1}, "`num_restarts` must be at least 0, got -1"),
        ({"step": 0.0}, "`step` must be positive and finite, got 0.0"),
        ({"chunk_size": 0}, "`chunk_size` must be at least 1, got 0"),
        ({"inputs": torch.zeros(3, 4)}, "`inputs` must be floating point of shape"),
        ({"inputs": torch.zeros(2, 4, dtype=torch.int64)}, "`inputs` must be floating point of shape"),
        ({"labels": torch.tensor([0, 2])}, "`labels` must lie in 0..1, got values from 0 to 2"),
        ({"inputs": torch.full((2, 4), math.nan, dtype=torch.float64)}, "`logits` must be finite"),
    ],
)
def test_bad_requests_are_refused(options: dict, message: str) -> None:  # type: ignore[type-arg]
    inputs, labels = points(2, 4, num_classes=2)
    request = {"inputs": inputs, "labels": labels, "radius": 1.0} | options
    with pytest.raises(ValueError, match=message):
        worst_shift(linear(4, 2), request.pop("inputs"), request.pop("labels"), **request)


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("num_steps", [1, 4])
def test_quick_shifts_stay_in_the_ball_and_lower_the_margin_about_as_far_as_the_search(
    norm: Any, num_steps: int
) -> None:
    torch.manual_seed(0)
    model = MLP(input_shape=(3, 2), num_classes=4, widths=(8,)).double()
    inputs, labels = torch.randn(30, 3, 2).double(), torch.arange(30) % 4

    def margins(points: Tensor) -> Tensor:
        logits = model(points)
        others = logits.scatter(1, labels[:, None], -torch.inf).amax(dim=1)
        return logits.gather(1, labels[:, None]).squeeze(1) - others

    point = inputs.clone().requires_grad_()
    shift = quick_shift(margins, point, margins(point), radius=0.2, norm=norm, num_steps=num_steps)
    sizes = shift.flatten(1).norm(dim=1) if norm == "l2" else shift.flatten(1).abs().amax(dim=1)
    assert (sizes <= 0.2 * (1 + 1e-12)).all()
    searched = worst_shift(model, inputs, labels, radius=0.2, norm=norm).margin
    drop, most = margins(inputs) - margins(inputs + shift), margins(inputs) - searched
    assert (drop.detach() <= most.detach() + 1e-9).all()
    assert (drop.sum() / most.sum()).item() > 0.9


def test_quick_shift_of_a_flat_margin_stays() -> None:
    point = torch.randn(2, 3, requires_grad=True)
    flat = point.sum(dim=1) * 0
    assert not quick_shift(lambda points: points.sum(dim=1) * 0, point, flat, radius=1.0, num_steps=2).any()
