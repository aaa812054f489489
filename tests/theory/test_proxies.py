import pytest
import torch
from torch import nn

from surefoot.models import MLP
from surefoot.predictions import Predictions
from surefoot.theory import input_gradient_margins, low_rank_sharpness, mini_batch, sample_curvature, tail


def trained(num_steps: int = 60) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    model = MLP(input_shape=(4,), num_classes=3, widths=(16,)).double()
    inputs = torch.randn(40, 4, dtype=torch.float64)
    labels = (inputs[:, 0] > 0).long() + (inputs[:, 1] > 0.5).long()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(num_steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    return model, inputs, labels


def test_all_samples_make_no_error() -> None:
    model, inputs, labels = trained()
    found = mini_batch(model, inputs, labels, size=100, seed=3)
    predictions = Predictions(model(inputs).detach(), labels)
    exact = tail(predictions.margin)
    assert found.tail.log_moment == pytest.approx(exact.log_moment)
    largest = float(sample_curvature(model, inputs).norms.max())
    assert found.sharpness_bound == pytest.approx(2 * largest**2 * 2 * float(predictions.margin.neg().exp().mean()))


def test_the_moment_of_a_mini_batch_is_unbiased() -> None:
    model, inputs, labels = trained()
    exact = float(Predictions(model(inputs).detach(), labels).margin.neg().exp().mean())
    drawn = torch.tensor([mini_batch(model, inputs, labels, size=8, seed=s).tail.log_moment for s in range(400)]).exp()
    error = float(drawn.std()) / 20
    assert float(drawn.std()) > 0.05 * exact
    assert abs(float(drawn.mean()) - exact) < 4 * error


def test_a_mini_batch_can_miss_the_worst_sample() -> None:
    model, inputs, labels = trained(400)
    labels = labels.clone()
    wrong = int(Predictions(model(inputs).detach(), labels).margin.argmax())
    labels[wrong] = (labels[wrong] + 1) % 3
    called = {mini_batch(model, inputs, labels, size=8, seed=seed).tail.interpolating for seed in range(40)}
    assert called == {True, False}


def test_the_worst_of_a_mini_batch_are_named_by_their_place_in_the_whole() -> None:
    model, inputs, labels = trained()
    margin = Predictions(model(inputs).detach(), labels).margin
    worst = mini_batch(model, inputs, labels, size=8, seed=1).tail.worst
    assert len(set(worst.tolist())) == 8
    assert max(worst.tolist()) >= 8
    assert margin[worst].tolist() == sorted(margin[worst].tolist())
    with pytest.raises(ValueError, match="`labels` must be as many as the inputs, 40, got 3"):
        mini_batch(model, inputs, labels[:3], size=8, seed=1)


def test_low_rank_is_below_and_near() -> None:
    model, inputs, _ = trained()
    exact = float(sample_curvature(model, inputs).sharpness.mean())
    one, two = (low_rank_sharpness(model, inputs, rank=rank) for rank in (1, 2))
    assert 0.8 * exact < one <= two * (1 + 1e-12)
    assert two == pytest.approx(exact)


@pytest.mark.parametrize(("norm", "dual"), [("l2", 2.0), ("linf", 1.0)])
def test_input_gradients_by_finite_differences(norm: str, dual: float) -> None:
    model, inputs, labels = trained()
    found = input_gradient_margins(model, inputs, labels, radius=0.3, norm=norm)  # type: ignore[arg-type]
    h = 1e-6
    for x, y, value in zip(inputs[:5], labels[:5], found[:5], strict=True):

        def margin(at: torch.Tensor, y: torch.Tensor = y) -> float:
            return float(Predictions(model(at[None]).detach(), y[None]).margin)

        slope = torch.tensor([(margin(x + h * e) - margin(x - h * e)) / (2 * h) for e in torch.eye(4).double()])
        assert float(value) == pytest.approx(
            margin(x) - 0.3 * float(torch.linalg.vector_norm(slope, ord=dual)), rel=1e-5
        )


def test_bad_requests_are_refused() -> None:
    model, inputs, labels = trained(1)
    with pytest.raises(ValueError, match="`size` must be at least 1"):
        mini_batch(model, inputs, labels, size=0, seed=0)
    with pytest.raises(ValueError, match="`radius` must be at least 0 and finite"):
        input_gradient_margins(model, inputs, labels, radius=-1.0, norm="l2")
    with pytest.raises(ValueError, match="Unknown norm 'l1'"):
        input_gradient_margins(model, inputs, labels, radius=1.0, norm="l1")  # type: ignore[arg-type]
