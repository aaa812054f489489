import pytest
import torch

from surefoot.posthoc import EnsembleTemperature, Temperature
from surefoot.predictions import Predictions


def drawn(*, noise: float, temperature: float, seed: int = 0) -> Predictions:
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(2000, 5, generator=generator, dtype=torch.float64)
    truth = (1 - noise) * logits.softmax(dim=1) + noise / 5
    return Predictions(logits * temperature, torch.multinomial(truth, 1, generator=generator)[:, 0])


def components(predictions: Predictions, temperature: float) -> torch.Tensor:
    z = predictions.logits
    return torch.stack([(z / temperature).softmax(1), z.softmax(1), torch.full_like(z, 1 / z.shape[1])], dim=2)


@pytest.mark.parametrize(("noise", "temperature"), [(0.0, 1.0), (0.0, 3.0), (0.3, 1.0), (0.3, 2.0), (0.9, 0.5)])
def test_no_component_deserves_more_weight(noise: float, temperature: float) -> None:
    predictions = drawn(noise=noise, temperature=temperature)
    fitted = EnsembleTemperature.fit(predictions)
    assert fitted.temperature == Temperature.fit(predictions).temperature
    weights = fitted.weights
    assert weights.min() >= 0
    assert weights.sum().item() == pytest.approx(1)
    label = predictions.labels[:, None, None].expand(-1, 1, 3)
    true = components(predictions, fitted.temperature).gather(1, label)[:, 0]
    ratio = (true / (true @ weights)[:, None]).mean(dim=0)
    assert ratio.max() < 1 + 1e-9  # mean log(p v / p w) <= log mean(p v / p w) <= log max ratio for any other v
    assert fitted.fitted.certificate < 1e-9
    assert fitted.fitted.converged


def test_is_the_mixture() -> None:
    predictions = drawn(noise=0.3, temperature=2.0)
    fitted = EnsembleTemperature.fit(predictions)
    expected = components(predictions, fitted.temperature) @ fitted.weights
    torch.testing.assert_close(fitted(predictions.logits), expected.log())


def test_finds_the_noise_in_the_labels() -> None:
    fitted = EnsembleTemperature.fit(drawn(noise=0.3, temperature=1.0))
    assert fitted.weights[2].item() == pytest.approx(0.3, abs=0.05)


def test_certifies_the_temperature_as_well() -> None:
    predictions = drawn(noise=0.3, temperature=2.0)
    for max_steps in (1, 2, 3):
        alone = Temperature.fit(predictions, max_steps=max_steps).fitted
        both = EnsembleTemperature.fit(predictions, max_steps=max_steps).fitted
        assert both.certificate >= alone.certificate
        assert not both.converged
