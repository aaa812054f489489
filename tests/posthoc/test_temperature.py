import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from surefoot.metrics import ece, nll
from surefoot.posthoc import Temperature, TemperatureECE, tce
from surefoot.predictions import Predictions


def drawn(temperature: float, seed: int, n: int = 4000) -> Predictions:
    """Labels drawn from softmax(z), logits handed on as z * temperature: the best T is near `temperature`."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, 5, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0]
    return Predictions(logits * temperature, labels)


def golden_section(logits: Tensor, labels: Tensor) -> float:
    """The T of least NLL, from values of the NLL alone."""

    def value(place: float) -> float:
        return float(torch.nn.functional.cross_entropy(logits.double() * math.exp(place), labels, reduction="sum"))

    low, high = -6.0, 6.0
    shrink = (math.sqrt(5) - 1) / 2
    for _ in range(60):
        left, right = high - shrink * (high - low), low + shrink * (high - low)
        low, high = (low, right) if value(left) < value(right) else (left, high)
    return math.exp(-(low + high) / 2)


@pytest.mark.parametrize("temperature", [0.05, 0.3, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [500, 30_000])  # without and with a warm start
def test_agrees_with_golden_section(temperature: float, dtype: torch.dtype, n: int) -> None:
    exact = drawn(temperature, seed=0, n=n)
    predictions = Predictions(exact.logits.to(dtype), exact.labels)
    fitted = Temperature.fit(predictions)
    assert fitted.temperature == pytest.approx(golden_section(predictions.logits, predictions.labels), rel=1e-6)
    assert fitted.fitted.converged
    assert fitted.fitted.certificate < 1e-8
    assert fitted.fitted.num_steps <= (10 if n == 500 else 5)  # quadratic convergence, the warm start's steps aside


@settings(max_examples=15, deadline=None)
@given(temperature=st.floats(0.05, 20), seed=st.integers(0, 1000))
def test_finds_the_minimum_of_the_nll(temperature: float, seed: int) -> None:
    predictions = drawn(temperature, seed)
    fitted = Temperature.fit(predictions)
    assert fitted.temperature == pytest.approx(temperature, rel=0.15)
    best = nll(Predictions(fitted(predictions.logits), predictions.labels)).item()
    for factor in (0.999, 1.001):
        other = replace(fitted, temperature=fitted.temperature * factor)
        assert nll(Predictions(other(predictions.logits), predictions.labels)).item() > best


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_any_unit_of_the_logits(scale: float) -> None:
    predictions = drawn(1.0, 0)
    scaled = Predictions(predictions.logits * scale, predictions.labels)
    assert Temperature.fit(scaled).temperature == pytest.approx(Temperature.fit(predictions).temperature * scale)


def test_by_hand() -> None:
    # two classes, margin 1 before T, right 3 times in 4: sigmoid(1 / T) = 3/4
    predictions = Predictions(torch.tensor([[1.0, 0.0]] * 4), torch.tensor([0, 0, 0, 1]))
    assert Temperature.fit(predictions).temperature == pytest.approx(1 / math.log(3))


def test_without_a_step_there_is_nothing_to_return() -> None:
    with pytest.raises(ValueError, match="`max_steps` must be at least 1, got 0"):
        Temperature.fit(drawn(1.0, 0), max_steps=0)


def test_unconverged_it_certifies_the_temperature_it_returns() -> None:
    predictions = drawn(3.0, 0)
    fitted = Temperature.fit(predictions, max_steps=2)
    place = torch.tensor(-math.log(fitted.temperature), dtype=torch.float64, requires_grad=True)
    loss = torch.nn.functional.cross_entropy(predictions.logits * place.exp(), predictions.labels)
    (slope,) = torch.autograd.grad(loss, place)
    assert fitted.fitted.certificate == pytest.approx(abs(slope.item()))
    assert not fitted.fitted.converged


def test_is_the_identity_at_one() -> None:
    predictions = drawn(3.0, 0)
    one = replace(Temperature.fit(predictions), temperature=1.0)
    assert torch.equal(one(predictions.logits), predictions.logits)


@pytest.mark.parametrize(("labels", "side"), [([0, 0, 0], "T = 0"), ([1, 1, 1], "T = infinity")])
def test_says_where_there_is_no_best_temperature(labels: list[int], side: str) -> None:
    predictions = Predictions(torch.tensor([[2.0, 1.0], [3.0, 1.0], [1.0, 0.5]]), torch.tensor(labels))
    with pytest.raises(ValueError, match=side):
        Temperature.fit(predictions)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_by_ece_it_is_the_best_of_the_grid(temperature: float, seed: int) -> None:
    predictions = drawn(temperature, seed=seed, n=100)
    errors = {t / 10: ece(Predictions(predictions.logits / (t / 10), predictions.labels)).item() for t in range(1, 101)}
    fitted = TemperatureECE.fit(predictions)
    assert errors[fitted.temperature] == pytest.approx(min(errors.values()), abs=1e-12)
    assert fitted.fitted.converged


def test_by_ece_ties_go_to_the_temperature_nearest_one() -> None:
    half = Predictions(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1]))  # the same at any T
    assert TemperatureECE.fit(half).temperature == 1.0
    far = Predictions(torch.tensor([[1e3, 0.0]] * 3), torch.tensor([0, 0, 0]))  # certain and right, up to T = 10
    assert TemperatureECE.fit(far).temperature == 1.0


def test_by_ece_an_end_of_the_grid_is_not_convergence() -> None:
    fitted = TemperatureECE.fit(drawn(30.0, seed=0))
    assert fitted.temperature == 10.0
    assert not fitted.fitted.converged


def test_tce_is_the_ece_after_temperature() -> None:
    validation, test = drawn(2.0, 0), drawn(2.0, 1)
    for by, kind in (("nll", Temperature), ("ece", TemperatureECE)):
        after = Predictions(kind.fit(validation)(test.logits), test.labels)
        assert tce(validation, test, by=by).item() == pytest.approx(ece(after).item(), abs=1e-12)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"Unknown choice of temperature 'nl'\. Did you mean 'nll'\?"):
        tce(validation, test, by="nl")  # type: ignore[arg-type]
