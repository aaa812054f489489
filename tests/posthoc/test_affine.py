import math
import warnings

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from surefoot.metrics import nll
from surefoot.posthoc import SMS, SVS, Dirichlet, Matrix, Temperature, Vector
from surefoot.predictions import Predictions


def drawn(k: int, *, n: int = 1500, seed: int = 0) -> Predictions:
    """Overconfident by a factor that differs from class to class, with confusions between neighbours."""
    generator = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(n, k, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0]
    factors = torch.linspace(1.5, 3.0, k, dtype=torch.float64)
    return Predictions(logits * factors + 0.5 * logits.roll(1, dims=1) + 0.2 * torch.arange(k), labels)


def gradients(objective: Tensor, *parameters: Tensor) -> float:
    return max(float(part.abs().max()) for part in torch.autograd.grad(objective, parameters))


def leaf(values: Tensor) -> Tensor:
    return values.clone().requires_grad_()


@pytest.mark.parametrize("k", [2, 3, 7])
def test_vector_scaling_is_stationary(k: int) -> None:
    predictions = drawn(k)
    fitted = Vector.fit(predictions)
    weight, bias = leaf(fitted.weight), leaf(fitted.bias)
    assert gradients(cross_entropy(predictions.logits * weight + bias, predictions.labels), weight, bias) < 1e-9


@pytest.mark.parametrize("k", [2, 3, 7])
def test_matrix_scaling_is_stationary(k: int) -> None:
    predictions = drawn(k)
    fitted = Matrix.fit(predictions)
    weight, bias = leaf(fitted.weight), leaf(fitted.bias)
    assert gradients(cross_entropy(predictions.logits @ weight.T + bias, predictions.labels), weight, bias) < 1e-9


def test_matrix_scaling_agrees_with_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression

    predictions = drawn(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = LogisticRegression(C=1e10, tol=1e-10, max_iter=5000).fit(predictions.logits, predictions.labels)
    expected = torch.tensor(peer.predict_log_proba(predictions.logits))
    found = Matrix.fit(predictions)(predictions.logits).log_softmax(dim=1)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-3)
    assert nll(Predictions(found, predictions.labels)) <= nll(Predictions(expected, predictions.labels)) + 1e-12


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize(("off_diagonal", "strength"), [(1e-3, 1e-1), (10.0, 1e-2)])
def test_dirichlet_minimises_the_stated_objective(k: int, off_diagonal: float, strength: float) -> None:
    predictions = drawn(k)
    fitted = Dirichlet.fit(predictions, off_diagonal=off_diagonal, bias=strength)
    weight, bias = leaf(fitted.weight), leaf(fitted.bias)
    outside = 1 - torch.eye(k, dtype=torch.float64)
    objective = cross_entropy(predictions.logits.log_softmax(dim=1) @ weight.T + bias, predictions.labels)
    objective = objective + off_diagonal / (k * (k - 1)) * (outside * weight**2).sum() + strength / k * (bias**2).sum()
    assert gradients(objective, weight, bias) < 1e-9


def test_dirichlet_refuses_to_go_without_a_penalty() -> None:
    for options in ({"off_diagonal": 0.0}, {"bias": -1.0}):
        with pytest.raises(ValueError, match="must be positive, got"):
            Dirichlet.fit(drawn(3), **options)


def softened(predictions: Predictions, temperature: float) -> Tensor:
    n, k = predictions.num_samples, predictions.num_classes
    return ((predictions.logits / temperature).softmax(dim=1) * (n / (n + 1)) + 1 / ((n + 1) * k)).log()


@pytest.mark.parametrize("k", [2, 4])
def test_svs_minimises_the_stated_objective(k: int) -> None:
    predictions = drawn(k, n=200)
    fitted = SVS.fit(predictions)
    assert fitted.temperature == pytest.approx(Temperature.fit(predictions).temperature)
    logs = softened(predictions, fitted.temperature)
    v, b = leaf(fitted.weight - 1), leaf(fitted.bias)
    objective = cross_entropy((1 + v) * logs + b, predictions.labels) + k / 200 * ((b**2).sum() + (v**2).sum())
    assert gradients(objective, v, b) < 1e-9
    torch.testing.assert_close(fitted(predictions.logits), logs * fitted.weight + fitted.bias)


@pytest.mark.parametrize("k", [2, 4])
def test_sms_minimises_the_stated_objective(k: int) -> None:
    predictions = drawn(k, n=200)
    fitted = SMS.fit(predictions)
    assert fitted.temperature == pytest.approx(Temperature.fit(predictions).temperature)
    logs = softened(predictions, fitted.temperature)
    identity = torch.eye(k, dtype=torch.float64)
    weight, b = leaf(fitted.weight), leaf(fitted.bias)
    v, m = (weight - identity).diagonal(), weight * (1 - identity)
    penalty = k * (b**2).sum() + k * (v**2).sum() + k * (k - 1) * (m**2).sum()
    objective = cross_entropy(logs @ weight.T + b, predictions.labels) + penalty / 200
    assert gradients(objective, weight, b) < 1e-9
    torch.testing.assert_close(fitted(predictions.logits), logs @ fitted.weight.T + fitted.bias)


@pytest.mark.parametrize("kind", [SVS, SMS])
@pytest.mark.parametrize("right", [True, False])
def test_structured_scaling_stops_the_temperature_where_none_is_best(kind: type[SVS | SMS], right: bool) -> None:
    predictions = drawn(3, n=300)
    labels = predictions.predicted if right else predictions.logits.argmin(dim=1)
    fitted = kind.fit(Predictions(predictions.logits, labels))
    assert math.log(fitted.temperature) == pytest.approx(-16.0 if right else 16.0)
    assert fitted.fitted.converged
    calibrated = Predictions(fitted(predictions.logits), labels)
    assert nll(calibrated) < (0.05 if right else math.log(3))


@pytest.mark.parametrize("kind", [Vector, Matrix])
def test_no_best_affine_map_without_samples_of_a_class(kind: type[Vector | Matrix]) -> None:
    predictions = drawn(3)
    with pytest.raises(ValueError, match="class 1 has no sample"):
        kind.fit(predictions[predictions.labels != 1])


def test_no_best_matrix_where_samples_are_few() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(12, 8, generator=generator, dtype=torch.float64)
    few = Predictions(logits, torch.arange(12) % 8)  # in general position, so some matrix separates them
    with pytest.raises(ValueError, match="some gets every sample right"):
        Matrix.fit(few)
    assert Vector.fit(few).fitted.converged


@pytest.mark.parametrize("kind", [Vector, Matrix])
def test_better_than_temperature_even_where_that_has_no_optimum(kind: type[Vector | Matrix]) -> None:
    predictions = drawn(3)
    worst = Predictions(-predictions.logits, predictions.labels)  # worse than chance: negative weights mend it
    with pytest.raises(ValueError, match="T = infinity"):
        Temperature.fit(worst)
    mended, plain = kind.fit(worst)(worst.logits), kind.fit(predictions)(predictions.logits)
    torch.testing.assert_close(mended.log_softmax(dim=1), plain.log_softmax(dim=1), rtol=0, atol=1e-8)
