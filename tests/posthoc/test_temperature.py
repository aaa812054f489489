import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.metrics import nll
from surefoot.posthoc import Temperature
from surefoot.predictions import Predictions


def drawn(temperature: float, seed: int, n: int = 4000) -> Predictions:
    """Labels drawn from softmax(z), logits handed on as z * temperature: the best T is near `temperature`."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, 5, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0]
    return Predictions(logits * temperature, labels)


@settings(max_examples=15, deadline=None)
@given(temperature=st.floats(0.05, 20), seed=st.integers(0, 1000))
def test_finds_the_minimum_of_the_nll(temperature: float, seed: int) -> None:
    predictions = drawn(temperature, seed)
    fitted = Temperature.fit(predictions)
    assert fitted.temperature == pytest.approx(temperature, rel=0.15)
    best = nll(Predictions(fitted(predictions.logits), predictions.labels)).item()
    for factor in (0.999, 1.001):
        other = Temperature(fitted.temperature * factor)
        assert nll(Predictions(other(predictions.logits), predictions.labels)).item() > best


def test_keeps_the_prediction_and_is_the_identity_at_one() -> None:
    predictions = drawn(3.0, 0)
    logits = Temperature.fit(predictions)(predictions.logits)
    assert torch.equal(logits.argmax(dim=1), predictions.predicted)
    assert torch.equal(Temperature(1.0)(logits), logits)


@pytest.mark.parametrize(("labels", "side"), [([0, 0, 0], "T = 0"), ([1, 1, 1], "T = infinity")])
def test_says_where_there_is_no_best_temperature(labels: list[int], side: str) -> None:
    predictions = Predictions(torch.tensor([[2.0, 1.0], [3.0, 1.0], [1.0, 0.5]]), torch.tensor(labels))
    with pytest.raises(ValueError, match=side):
        Temperature.fit(predictions)
