"""The margin-aware objective against closed forms, bounds and limits."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from references.processes import in_two_processes
from surefoot.losses import Adversarial, Batch, CrossEntropy, InputGradient, MarginAware
from surefoot.losses.margin_aware import FEWEST_STEPS, tail_bound, too_sure
from surefoot.metrics import ece, log_margin_moment
from surefoot.models import CNN, MLP
from surefoot.optim import CSAM, SAM
from surefoot.predictions import Predictions


def batch(n: int = 10, *, shape: tuple[int, ...] = (4,), dtype: torch.dtype = torch.float64) -> Batch:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(n, *shape, generator=generator, dtype=torch.float64)
    return Batch(inputs.to(dtype), torch.randint(3, (n,), generator=generator), torch.arange(n))


def network(*, classes: int = 3, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return MLP(input_shape=(4,), num_classes=classes, widths=(6,)).double()


def gradient(values: Tensor, model: nn.Module) -> list[Tensor]:
    return list(torch.autograd.grad(values.mean(), list(model.parameters())))


@pytest.mark.parametrize("every", [1, 3])
def test_without_its_terms_it_is_cross_entropy_bit_for_bit(every: int) -> None:
    model, data = network(), batch()
    plain = CrossEntropy()(model(data.inputs), data.labels)
    values = MarginAware(tail=0.0, smooth=0.0, every=every)(model, data)
    assert torch.equal(values, plain)
    for ours, theirs in zip(gradient(values, model), gradient(plain, model), strict=True):
        assert torch.equal(ours, theirs)


def test_of_a_linear_model_value_and_slope_are_those_of_the_closed_form() -> None:
    torch.manual_seed(0)
    model, data = nn.Linear(4, 2).double(), batch()
    labels = data.labels.clamp(max=1)
    radius = 0.3
    eps = radius * 2  # sqrt(4)
    values = MarginAware(tail=0.7, smooth=0.4, radius=radius)(model, Batch(data.inputs, labels, data.indices))
    logits = model(data.inputs)
    rows = torch.arange(10)
    apart = model.weight[labels] - model.weight[1 - labels]  # [N, 4]
    robust = logits[rows, labels] - logits[rows, 1 - labels] - eps * apart.norm(dim=1)
    moved = (model.weight @ (apart / apart.norm(dim=1, keepdim=True)).detach().T).square().sum(dim=0)
    wanted = CrossEntropy()(logits, labels) + 0.7 * torch.log1p(torch.exp(-robust)) + 0.4 * moved
    torch.testing.assert_close(values, wanted)
    for ours, theirs in zip(gradient(values, model), gradient(wanted, model), strict=True):
        torch.testing.assert_close(ours, theirs)  # of the tail: that of the minimum over shifts, as Danskin says


def test_by_hand() -> None:
    model = nn.Linear(2, 2, bias=False).double()
    model.weight.data = torch.tensor([[3.0, 4.0], [0.0, 0.0]]).double()
    data = Batch(torch.tensor([[1.0, 1.0]]).double(), torch.tensor([0]), torch.tensor([0]))
    value = MarginAware(tail=1.0, smooth=1.0, radius=0.5 / math.sqrt(2))(model, data)  # eps 0.5: margin 7 falls to 4.5
    assert value.item() == pytest.approx(math.log1p(math.exp(-7)) + math.log1p(math.exp(-4.5)) + 25.0)


def test_a_weight_above_one_lowers_the_rest_instead() -> None:
    model, data = network(), batch()
    plain = CrossEntropy()(model(data.inputs), data.labels)
    one, four = (MarginAware(tail=0.5, smooth=smooth)(model, data) for smooth in (1.0, 4.0))
    tail = MarginAware(tail=0.5, smooth=0.0)(model, data) - plain
    torch.testing.assert_close(four - (plain + tail) / 4, one - plain - tail)
    seldom = MarginAware(tail=0.5, smooth=4.0, every=2)
    torch.testing.assert_close(seldom(model, data), 2 * four - plain / 4)
    seldom.after_step(data, plain)
    torch.testing.assert_close(seldom(model, data), plain / 4)


def test_slopes_against_finite_differences_with_the_shift_held() -> None:
    model, data = network(), batch()
    made = MarginAware(tail=0.5, smooth=0.3)
    held = 0.2 * torch.randn(data.inputs.shape, generator=torch.Generator().manual_seed(3)).double()
    made.shift = lambda *given: held  # type: ignore[method-assign]
    weights = dict(model.named_parameters())

    def value(*tensors: Tensor) -> Tensor:
        swapped = dict(zip(weights, tensors, strict=True))
        return made(_Called(model, swapped), data)

    assert torch.autograd.gradcheck(value, [p.detach().clone().requires_grad_() for p in weights.values()])


class _Called(nn.Module):
    def __init__(self, model: nn.Module, weights: dict[str, Tensor]) -> None:
        super().__init__()
        self.call = lambda inputs: torch.func.functional_call(model, weights, (inputs,))

    def forward(self, inputs: Tensor) -> Tensor:
        result: Tensor = self.call(inputs)
        return result


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [100.0, 1e4])
def test_far_margins_give_finite_values_and_slopes_of_at_most_one(dtype: torch.dtype, size: float) -> None:
    logits = torch.tensor([[size, 0.0, 0.0], [-size, 0.0, 0.0]], dtype=dtype, requires_grad=True)
    labels = torch.zeros(2, dtype=torch.long)
    values = tail_bound(logits, logits, labels)
    (slope,) = torch.autograd.grad(values.sum(), logits)
    assert values.isfinite().all()
    assert values[1].item() == pytest.approx(size + math.log(2))
    assert slope.abs().max() <= 1
    model = nn.Linear(2, 3).to(dtype)
    with torch.no_grad():
        model.weight.mul_(0).add_(torch.tensor([[size, 0], [0, 0], [0, 0]], dtype=dtype))
    inputs = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=dtype)
    total = MarginAware(tail=1.0, smooth=1.0)(model, Batch(inputs, labels, torch.arange(2)))
    assert all(g.isfinite().all() for g in gradient(total, model))


def test_the_tail_lies_between_the_calibration_error_and_the_papers_moment() -> None:
    for seed in range(20):
        model, data = network(seed=seed), batch(40)
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(1 + seed / 2)
        logits = model(data.inputs).detach()
        tail = tail_bound(logits, logits, data.labels)
        predictions = Predictions(logits, data.labels)
        assert (tail >= CrossEntropy()(logits, data.labels) - 1e-12).all()
        assert float(ece(predictions)) <= float((1 - predictions.probabilities[torch.arange(40), data.labels]).mean())
        assert float(ece(predictions)) <= float(tail.mean())
        assert float(tail.mean()) <= 2 * math.exp(float(log_margin_moment(predictions))) + 1e-12
        shifted = logits + torch.randn(logits.shape, generator=torch.Generator().manual_seed(seed)).double()
        assert (tail_bound(logits, shifted, data.labels) >= tail).all()  # no shift is among the candidates


def test_every_third_step_has_both_terms_three_times() -> None:
    model, data = network(), batch()
    plain = CrossEntropy()(model(data.inputs), data.labels)
    whole = MarginAware(tail=0.5, smooth=0.3)(model, data)
    made = MarginAware(tail=0.5, smooth=0.3, every=3)
    looks: list[int] = []
    hook = model.register_forward_hook(lambda *given: looks.append(1))
    seen, counts = [], []
    for _ in range(6):
        looks.clear()
        seen.append(made(model, data))
        counts.append(len(looks))
        made.after_step(data, plain)
    hook.remove()
    assert counts == [2, 1, 1, 2, 1, 1]
    torch.testing.assert_close(seen[0], plain + 3 * (whole - plain))
    assert torch.equal(seen[0], seen[3])
    assert all(torch.equal(seen[k], plain) for k in (1, 2, 4, 5))
    with torch.no_grad():
        torch.testing.assert_close(made(model, data), whole.detach())
    again = MarginAware(tail=0.5, smooth=0.3, every=3)
    again.load_state_dict({"num_told": 4, "moved": 0, "smooth": 0.3, "lowest": 2.0})
    assert torch.equal(again(model, data), plain)


@pytest.mark.parametrize("make", [MarginAware, Adversarial, InputGradient, lambda: MarginAware(tail=1.0, num_steps=3)])
def test_values_without_slopes_are_the_same_and_hold_no_graph(make: Any) -> None:
    model, data = network(), batch()
    wanted = make()(model, data)
    with torch.no_grad():
        values = make()(model, data)
    assert not values.requires_grad
    assert torch.equal(values, wanted.detach())
    assert data.inputs.grad is None
    assert not data.inputs.requires_grad
    assert all(p.grad is None for p in model.parameters())


def held_out(times: float, *, n: int = 4000) -> Predictions:
    """Predictions that would be calibrated, were their logits divided by `times`."""
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(n, 4, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(dim=1), 1, generator=generator).squeeze(1)
    return Predictions(times * logits, labels)


@pytest.mark.parametrize("times", [0.7, 1.0, 1.3])
def test_what_validation_asks_for_is_one_step_towards_its_temperature(times: float) -> None:
    found, error = too_sure(held_out(times))
    logits, labels = held_out(times).logits, held_out(times).labels
    beta = torch.ones((), dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(F.cross_entropy(beta * logits, labels), beta, create_graph=True)
    (second,) = torch.autograd.grad(first, beta)
    assert found == pytest.approx(float(first.detach() / second))
    assert found == pytest.approx(1 - 1 / times, abs=0.15)  # Newton's first step, and 4,000 samples
    assert too_sure(Predictions(torch.zeros(3, 4), torch.zeros(3).long())) == (0, 0)  # nothing said, nothing asked for
    slopes = (logits.softmax(1) * logits).sum(1) - logits.gather(1, labels[:, None]).squeeze(1)
    assert error == pytest.approx(float(slopes.std(correction=0) / second / 4000**0.5))


def told(made: MarginAware, times: float) -> float:
    """The weight after as many steps as it takes, and a validation split that is too sure by that factor."""
    data = batch()
    for _ in range(FEWEST_STEPS):
        made.after_step(data, data.inputs)
    made.after_epoch(held_out(times))
    return made.smooth


def test_the_weight_follows_the_validation_split_and_waits_while_it_learns() -> None:
    made = MarginAware(smooth=0.5, adapt=0.5)
    assert told(made, 0.2) == 0.5  # unsure, and never better before: it learns
    assert told(made, 0.2) == pytest.approx(
        0.5 * math.exp(-0.5)
    )  # as unsure as before; what is asked for is cut to one
    assert told(made, 5.0) == pytest.approx(0.5)
    assert told(made, 1.0) == pytest.approx(0.5)  # within its standard error: no move
    over, error = too_sure(held_out(0.8))
    assert told(made, 0.8) == pytest.approx(0.5 * math.exp(0.5 * (over + error)))
    fixed = MarginAware(smooth=0.5, adapt=0.0)
    assert told(fixed, 5.0) == 0.5
    fixed.after_epoch(None)
    with pytest.raises(ValueError, match=r"needs a validation split.*`adapt` to 0"):
        MarginAware().after_epoch(None)


def test_passes_of_few_steps_do_not_move_the_weight_each_time() -> None:
    data, made = batch(), MarginAware(smooth=0.5)
    for number in range(1, 2 * FEWEST_STEPS + 1):
        made.after_step(data, data.inputs)
        made.after_epoch(held_out(5.0, n=20))
        assert made.smooth == pytest.approx(0.5 * math.exp(number // FEWEST_STEPS))


def test_the_weight_goes_no_further_than_a_hundredfold() -> None:
    made = MarginAware(smooth=0.5, adapt=50.0)
    assert [told(made, times) for times in (9.0, 9.0, 0.1, 0.1)] == [50.0, 50.0, 50.0, 0.005]


def test_under_sam_the_shift_is_found_anew_uphill() -> None:
    model, data = network(), batch()
    made, seen = MarginAware(tail=1.0, smooth=1.0), []
    found = made.shift
    made.shift = lambda *given: seen.append(found(*given)) or seen[-1]  # type: ignore[method-assign, func-returns-value]
    optimizer = SAM(model.parameters(), rho=0.5, lr=0.1)
    before = [p.detach().clone() for p in model.parameters()]

    def closure() -> Tensor:
        values = made(model, data).mean()
        values.backward()
        return values.detach()

    optimizer.step(closure)
    assert len(seen) == 2
    assert (seen[0] - seen[1]).abs().max() > 1e-3
    other = network()
    grads = gradient(MarginAware(tail=1.0, smooth=1.0)(other, data), other)
    size = torch.cat([g.flatten() for g in grads]).norm()
    with torch.no_grad():
        for p, g in zip(other.parameters(), grads, strict=True):
            p.add_(0.5 * g / size)
    uphill = gradient(MarginAware(tail=1.0, smooth=1.0)(other, data), other)
    for p, start, g in zip(model.parameters(), before, uphill, strict=True):
        torch.testing.assert_close(p.detach(), start - 0.1 * g)


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_csam_weighs_the_cross_entropy_and_leaves_the_terms(gamma: float) -> None:
    model, data = network(), batch()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(3)
    made = MarginAware(tail=0.5, smooth=0.3)
    optimizer = CSAM(model.parameters(), rho=0.1, gamma=gamma, lr=0.1)
    objective, seen = made.based_on(optimizer.per_sample), []

    def closure() -> Tensor:
        values = objective(model, data)
        logits = model(data.inputs)
        p = logits.softmax(1).gather(1, data.labels[:, None]).squeeze(1)
        weights = torch.where(p > 0.5, (1 + p) ** -gamma, 1.0) if seen else torch.ones(10)
        plain = CrossEntropy()(logits, data.labels)
        seen.append((values.detach(), (made(model, data) + (weights - 1) * plain).detach()))
        values.mean().backward()
        return values.mean().detach()

    optimizer.step(closure)
    assert len(seen) == 2
    for values, wanted in seen:
        torch.testing.assert_close(values, wanted)


def test_frozen_parameters_get_no_gradient_and_change_no_other() -> None:
    model, data = network(), batch()
    wanted = dict(zip([name for name, _ in model.named_parameters()], gradient(_both(model, data), model), strict=True))
    first = next(model.parameters())
    first.requires_grad_(False)
    _both(model, data).mean().backward()
    assert first.grad is None
    for name, p in list(model.named_parameters())[1:]:
        torch.testing.assert_close(p.grad, wanted[name])


def _both(model: nn.Module, data: Batch) -> Tensor:
    return MarginAware(tail=0.5, smooth=0.3)(model, data)


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("make", [MarginAware, Adversarial, lambda: MarginAware(num_steps=3)])
def test_running_statistics_are_those_of_the_clean_look(make: Any, momentum: float | None) -> None:
    torch.manual_seed(0)
    model, data = CNN(input_shape=(1, 8, 8), num_classes=3, widths=(4, 8)), batch(shape=(1, 8, 8), dtype=torch.float32)
    layers = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    for layer in layers:
        layer.momentum = momentum
    start = {key: value.clone() for key, value in model.state_dict().items()}
    model(data.inputs)
    wanted = {key: value.clone() for key, value in model.state_dict().items()}
    model.load_state_dict(start)
    made = make()
    made(model, data).mean().backward()
    for key, value in model.state_dict().items():
        assert torch.equal(value, wanted[key]), key
    assert all(layer.track_running_stats for layer in layers)
    layers[0].eval()  # a frozen layer goes by its statistics in both looks
    made(model, data).mean().backward()
    assert torch.equal(layers[0].running_mean, wanted["features.1.running_mean"])  # type: ignore[arg-type]


def test_both_passes_leave_out_the_same_units_and_draw_once() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 50), nn.Dropout(0.5), nn.Linear(50, 3)).double()
    data = batch()
    torch.manual_seed(5)
    model(data.inputs)
    wanted = torch.get_rng_state()
    slopes = []
    for radius in (1e-3, 1.0):  # linear once units are chosen: the size of the shift does not matter
        torch.manual_seed(5)
        values = MarginAware(tail=0.0, smooth=1.0, radius=radius)(model, data)
        assert torch.equal(torch.get_rng_state(), wanted)
        torch.manual_seed(5)
        plain = CrossEntropy()(model(data.inputs), data.labels)
        slopes.append((values - plain).detach())
    torch.testing.assert_close(slopes[0], slopes[1])
    assert slopes[0].max() < 10


def test_more_steps_find_lower_margins_on_average() -> None:
    torch.manual_seed(0)
    model, data = network(), batch(200)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(4)
    one, five = (
        MarginAware(tail=1.0, smooth=0.0, radius=0.5, num_steps=steps)(model, data).mean().item() for steps in (1, 5)
    )
    assert five > one + 0.01


def test_adversarial_of_a_linear_model_is_the_closed_form() -> None:
    torch.manual_seed(0)
    model, data = nn.Linear(4, 2).double(), batch()
    labels = data.labels.clamp(max=1)
    values = Adversarial(radius=0.3)(model, Batch(data.inputs, labels, data.indices))
    logits, rows = model(data.inputs), torch.arange(10)
    apart = model.weight[labels] - model.weight[1 - labels]
    robust = logits[rows, labels] - logits[rows, 1 - labels] - 0.6 * apart.norm(dim=1)
    torch.testing.assert_close(values, F.softplus(-robust))


def test_input_gradient_of_a_linear_model_is_the_closed_form() -> None:
    torch.manual_seed(0)
    model, data = nn.Linear(4, 3).double(), batch()
    logits = model(data.inputs)
    error = logits.softmax(1) - F.one_hot(data.labels, 3)
    wanted = CrossEntropy()(logits, data.labels) + 0.7 * (error @ model.weight).square().sum(dim=1)
    values = InputGradient(strength=0.7)(model, data)
    torch.testing.assert_close(values, wanted)
    for ours, theirs in zip(gradient(values, model), gradient(wanted, model), strict=True):
        torch.testing.assert_close(ours, theirs)
    plain = CrossEntropy()(logits, data.labels)
    torch.testing.assert_close(InputGradient(strength=0.0)(model, data), plain)


def _in_parallel(rank: int, folder: Path) -> None:
    data, mine = batch(16), slice(8 * rank, 8 * rank + 8)
    model = DistributedDataParallel(network())
    values = _both(model, Batch(data.inputs[mine], data.labels[mine], data.indices[mine]))
    values.mean().backward()
    torch.save([p.grad for p in model.parameters()], folder / f"{rank}.pt")
    torch.manual_seed(0)
    images = batch(8, shape=(1, 8, 8), dtype=torch.float32)
    normed = DistributedDataParallel(CNN(input_shape=(1, 8, 8), num_classes=3, widths=(4, 8)))
    for _ in range(2):  # buffers are copied between processes before the second
        _both(normed, images).mean().backward()


@pytest.mark.slow
def test_two_processes_have_the_gradient_of_the_whole_batch(tmp_path: Path) -> None:
    in_two_processes(_in_parallel, tmp_path)
    model, data = network(), batch(16)
    wanted = gradient(_both(model, data), model)
    for rank in (0, 1):
        for found, whole in zip(torch.load(tmp_path / f"{rank}.pt"), wanted, strict=True):
            torch.testing.assert_close(found, whole)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MarginAware(radius=0.0), "`radius` must be positive and finite, got 0.0"),
        (lambda: MarginAware(radius=math.inf), "`radius` must be positive"),
        (lambda: MarginAware(tail=-1.0), "`tail` must be at least 0"),
        (lambda: MarginAware(smooth=math.nan), "`smooth` must be at least 0"),
        (lambda: MarginAware(adapt=-1.0), "`adapt` must be at least 0"),
        (lambda: MarginAware(every=0), "`every` must be at least 1"),
        (lambda: MarginAware(num_steps=0), "`num_steps` must be at least 1"),
        (lambda: Adversarial(radius=0.0), "`radius` must be positive"),
        (lambda: Adversarial(num_steps=0), "`num_steps` must be at least 1"),
        (lambda: InputGradient(strength=-1.0), "`strength` must be at least 0"),
    ],
)
def test_what_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("make", [MarginAware, Adversarial, InputGradient])
def test_inputs_that_cannot_move_are_refused(make: Any) -> None:
    tokens = Batch(torch.ones(2, 3, dtype=torch.long), torch.zeros(2, dtype=torch.long), torch.arange(2))
    with pytest.raises(ValueError, match="`inputs` must be floating point"):
        make()(nn.Linear(3, 3), tokens)
