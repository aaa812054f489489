"""What every objective in the registry promises, and every loss that remembers."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from surefoot.losses import (
    LOSSES,
    OBJECTIVES,
    Batch,
    Lifted,
    Objective,
    adversarial,
    couples_samples,
    margin_aware,
    memory_of,
)
from surefoot.models import MLP
from surefoot.optim import SAM
from surefoot.predictions import Predictions
from surefoot.runs.check_options import options_of

N, K = 12, 3
FORGETFUL = ("adversarial", "input_gradient")  # have no history
REMEMBERING = {name: make for name, make in LOSSES.items() if memory_of(make()) is not None}
ALL = pytest.mark.parametrize("name", [*OBJECTIVES, *REMEMBERING])


def network(name: str, dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(0)
    model: nn.Module = MLP(input_shape=(4,), num_classes=K, widths=(6,))
    wrapped: Callable[..., nn.Module] | None = getattr(OBJECTIVES.get(name), "wrapped", None)
    return (model if wrapped is None else wrapped(model, seed=0)).to(dtype)


def objective(name: str, model: nn.Module, **options: Any) -> Objective:
    if name in LOSSES:
        return Lifted(LOSSES[name](**options))
    known = {"model": model, "num_samples": N, "seed": 0}
    make = OBJECTIVES[name]
    return make(**{key: known[key] for key in options_of(make).keys() & known.keys()}, **options)


def samples(dtype: torch.dtype = torch.float64, size: int = N) -> Batch:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(size, 4, generator=generator, dtype=torch.float64, device="cpu")
    places = torch.arange(size, device="cpu")
    return Batch(inputs.to(dtype), torch.tensor([0, 1, 1, 2], device="cpu")[places % 4], places)


def of(batch: Batch, rows: Any) -> Batch:
    return Batch(batch.inputs[rows], batch.labels[rows], batch.indices[rows])


def told(name: str, model: nn.Module, passes: int = 2) -> Objective:
    """An objective with a history."""
    made = objective(name, model)
    memory = memory_of(made)
    if memory is None:
        return made
    batch = samples()
    for number in range(passes):
        for half in (slice(0, N // 2), slice(N // 2, N)):
            part = of(batch, half)
            with torch.no_grad():
                said = model(part.inputs, apart=True) if name == "balcal" else model(part.inputs)
            memory.after_step(part, said + number)
        with torch.no_grad():
            memory.after_epoch(Predictions(3 * model(batch.inputs), batch.labels))
    return made


def remembered(made: Objective) -> str:
    memory = memory_of(made)
    if memory is None:
        return ""
    return str({key: torch.as_tensor(value).tolist() for key, value in memory.state_dict().items()})


@ALL
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_finite_value_per_sample_in_the_models_dtype(name: str, dtype: torch.dtype) -> None:
    model = network(name, dtype)
    for made in (objective(name, model), told(name, network(name))):
        if name == "balcal" and dtype == torch.float32:
            made = objective(name, model)
        values = made(model, samples(dtype))
        assert values.shape == (N,)
        assert values.dtype == dtype
        assert values.isfinite().all()
        values.mean().backward()
        used = [p.grad for p in model.parameters() if p.grad is not None]
        assert used
        assert all(gradient.isfinite().all() for gradient in used)


@ALL
def test_the_slope_is_that_of_the_value(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = network(name), samples()
    made = told(name, model)
    weights = dict(model.named_parameters())
    if name == "macs":
        made.agree = 0.0  # type: ignore[attr-defined]  # its other part has no slope through the clean view, by design
    if name in ("adversarial", "margin_aware"):  # no slope through the shift, by design
        shift = 0.1 * torch.randn(batch.inputs.shape, generator=torch.Generator().manual_seed(2)).double()
        for module in (adversarial, margin_aware):
            monkeypatch.setattr(module, "quick_shift", lambda *given, **options: shift)
    keys = list(weights)[:2]

    def value(*tensors: Tensor) -> Tensor:
        swapped = {**weights, **dict(zip(keys, tensors, strict=True))}
        return made(_Swapped(model, swapped), batch).mean()

    assert torch.autograd.gradcheck(value, [weights[key].detach().clone().requires_grad_() for key in keys])


class _Swapped(nn.Module):
    def __init__(self, model: nn.Module, weights: dict[str, Tensor]) -> None:
        super().__init__()
        self.call = lambda *inputs, **options: torch.func.functional_call(model, weights, inputs, options)

    def forward(self, *inputs: Tensor, **options: Any) -> Tensor:
        result: Tensor = self.call(*inputs, **options)
        return result


@ALL
def test_asking_changes_nothing_and_asking_again_gives_the_same(name: str) -> None:
    model, batch = network(name), samples()
    made = told(name, model)
    before, state, buffers = remembered(made), torch.get_rng_state(), str(model.state_dict())
    first, second = made(model, batch), made(model, batch)
    assert torch.equal(first, second)  # both passes of a SAM step see the same mixture
    made(model, of(batch, slice(0, 5)))
    assert remembered(made) == before
    assert torch.equal(torch.get_rng_state(), state)
    assert str(model.state_dict()) == buffers
    assert torch.equal(made(model, batch), first)


@pytest.mark.parametrize("name", [name for name in (*OBJECTIVES, *REMEMBERING) if name not in FORGETFUL])
def test_a_saved_state_goes_on_to_the_same_bits(name: str) -> None:
    model, other = network(name), network(name)
    made = told(name, model)
    copy = objective(name, other)
    for source, target in ((made, copy),):
        memory, theirs = memory_of(source), memory_of(target)
        assert memory is not None
        assert theirs is not None
        other.load_state_dict(model.state_dict())
        theirs.load_state_dict(memory.state_dict())
    batch = samples()
    assert torch.equal(made(model, batch), copy(other, batch))
    assert remembered(copy) == remembered(made)
    memory.after_step(batch, model(batch.inputs, apart=True) if name == "balcal" else model(batch.inputs))
    assert remembered(copy) != remembered(made) or name == "adafocal"  # nothing is shared


@ALL
def test_extreme_logits_give_finite_values_and_slopes(name: str) -> None:
    for dtype in (torch.float32, torch.float64):
        model = network(name, dtype)
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(1e4)
        made = objective(name, model)
        values = made(model, samples(dtype))
        assert values.isfinite().all()
        values.mean().backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@ALL
def test_a_batch_of_one_and_samples_of_another_set(name: str) -> None:
    model, batch = network(name), samples()
    made = told(name, model)
    assert made(model, of(batch, slice(3, 4))).isfinite().all()
    strange = Batch(batch.inputs, batch.labels, torch.full((N,), -1))
    assert made(model, strange).isfinite().all()
    many = samples(size=3 * N)  # more than there are in the training set
    assert made(model, Batch(many.inputs, many.labels, torch.full((3 * N,), -1))).shape == (3 * N,)


@ALL
def test_under_autocast_values_and_slopes_are_finite(name: str) -> None:
    model = network(name, torch.float32)
    made = objective(name, model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        values = made(model, samples(torch.float32))
    assert values.dtype == torch.float32
    assert values.isfinite().all()
    values.mean().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@ALL
def test_samples_do_not_see_each_other_unless_it_says_so(name: str) -> None:
    model, batch = network(name), samples()
    made = told(name, model)
    whole = made(model, batch)
    parts = torch.cat([made(model, of(batch, slice(k, k + 1))) for k in range(N)])
    if couples_samples(made):
        assert (whole - parts).abs().max() > 1e-3
    elif name == "macs":  # each has its own noise, which depends on the batch
        made.noise = 0.0  # type: ignore[attr-defined]
        parts = torch.cat([made(model, of(batch, slice(k, k + 1))) for k in range(N)])
        torch.testing.assert_close(made(model, batch), parts)
    else:
        torch.testing.assert_close(whole, parts)


@ALL
def test_sam_takes_both_gradients_of_the_same_function(name: str) -> None:
    model, batch = network(name), samples()
    made = told(name, model)
    optimizer = SAM(model.parameters(), rho=0.0, lr=0.1)
    seen: list[Tensor] = []

    def closure() -> Tensor:
        optimizer.zero_grad()
        values = made(model, batch)
        values.mean().backward()
        seen.append(values.detach())
        return values.mean().detach()

    optimizer.step(closure)
    assert len(seen) == 2
    torch.testing.assert_close(seen[0], seen[1])


@ALL
def test_no_tensor_is_made_on_the_default_device(name: str) -> None:
    model, batch = network(name), samples()
    wanted = told(name, network(name))(model, batch)
    with torch.device("meta"):
        made = told(name, model)
        model.load_state_dict(model.state_dict())
        assert torch.equal(made(model, batch), wanted)
