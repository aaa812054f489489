import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from references.golden import GOLDEN
from surefoot.ensembles import SWAG
from surefoot.ensembles._batch_norm import buffers_at
from surefoot.models import CNN

CASE = GOLDEN["swag"]


class Two(nn.Module):
    """Two weights, which are the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(2, dtype=torch.float64))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs[:, :1] * self.weights


def collected(iterates: list[list[float]], *, max_rank: int = 3, scale: float = 0.5, num_samples: int = 30) -> SWAG:
    model = Two()
    swag = SWAG(model, max_rank=max_rank, scale=scale, num_samples=num_samples)
    for iterate in iterates:
        vector_to_parameters(torch.tensor(iterate, dtype=torch.float64), model.parameters())
        swag.collect(model)
    return swag


def exact(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_moments_and_a_draw_are_the_golden_ones() -> None:
    swag = collected(CASE["iterates"], max_rank=CASE["K"], scale=CASE["scale"])
    torch.testing.assert_close(swag.mean, exact(CASE["mean"]))
    torch.testing.assert_close(swag.variance, exact(CASE["var"]))
    unit = torch.eye(3, dtype=torch.float64)
    rows = [(swag.weights(torch.zeros_like(swag.mean), z) - swag.mean) * 2**0.5 / CASE["scale"] ** 0.5 for z in unit]
    torch.testing.assert_close(torch.stack(rows), exact(CASE["dev_rows"]))
    drawn = swag.weights(exact(CASE["z1"]), exact(CASE["z2"]))
    torch.testing.assert_close(drawn, exact(CASE["sample"]), rtol=0, atol=1e-8)


@pytest.mark.parametrize("number", [1, 2, 5, 9])
def test_moments_are_those_of_all_iterates_and_deviations_of_the_last(number: int) -> None:
    iterates = torch.randn(number, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    swag = collected(iterates.tolist(), max_rank=4)
    torch.testing.assert_close(swag.mean, iterates.mean(dim=0))
    torch.testing.assert_close(swag.variance, iterates.var(dim=0, correction=0))
    expected = [iterates[at] - iterates[: at + 1].mean(dim=0) for at in range(number)][-4:]
    assert swag.rank == len(expected)
    z = torch.randn(swag.rank, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    along = z @ torch.stack(expected) / max(len(expected) - 1, 1) ** 0.5
    torch.testing.assert_close(swag.weights(torch.zeros_like(swag.mean), z), swag.mean + along / 2**0.5)


def test_draws_have_the_mean_and_the_covariance_of_the_formula() -> None:
    swag = collected(CASE["iterates"])
    torch.manual_seed(0)
    number = 4_000
    draws = torch.stack(
        [swag.weights(torch.randn(2, dtype=torch.float64), torch.randn(3, dtype=torch.float64)) for _ in range(number)]
    )
    rows = exact(CASE["dev_rows"])
    expected = 0.5 * (exact(CASE["var"]).diag() + rows.T @ rows / 2)
    spread = expected.diag().sqrt()
    assert ((draws.mean(dim=0) - swag.mean).abs() < 5 * spread / number**0.5).all()
    assert ((draws.T.cov() - expected).abs() < 5 * 2**0.5 * torch.outer(spread, spread) / number**0.5).all()


def test_identical_iterates_are_the_model() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4)).double()
    swag = SWAG(model, num_samples=3)
    for _ in range(4):
        swag.collect(model)
    inputs = torch.randn(6, 3, dtype=torch.float64)
    torch.testing.assert_close(swag.predict(inputs), model(inputs).softmax(dim=1))


def test_scale_zero_is_the_mean_of_the_weights() -> None:
    swag = collected(CASE["iterates"], scale=0.0, num_samples=2)
    expected = (2 * exact(CASE["mean"])).softmax(dim=0)
    torch.testing.assert_close(swag.predict(torch.full((1, 1), 2.0, dtype=torch.float64))[0], expected)


def test_small_spread_around_large_weights_does_not_cancel() -> None:
    model = Two().float()
    swag = SWAG(model)
    for step in range(10):
        vector_to_parameters(torch.tensor([1.0 + 1e-4 * (step % 2), 0.0]), model.parameters())
        swag.collect(model)
    torch.testing.assert_close(swag.variance[0], torch.tensor(2.5e-9), rtol=2e-3, atol=0)  # the mean of squares: ~6e-8


def test_statistics_are_those_of_the_data_at_the_weights_drawn() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4, bias=False), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2)).double()
    inputs = torch.randn(50, 3, dtype=torch.float64)
    weights = {name: torch.randn_like(p) for name, p in model.named_parameters()}
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    found = buffers_at(model, weights, [(inputs[:30], "labels"), (inputs[30:], "labels")])
    features = inputs @ weights["0.weight"].T
    torch.testing.assert_close(found["1.running_mean"], features.mean(dim=0))
    variances = 0.6 * features[:30].var(dim=0) + 0.4 * features[30:].var(dim=0)  # weighted by the batches' sizes
    torch.testing.assert_close(found["1.running_var"], variances)
    assert all(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())
    assert model.training
    assert model[1].momentum == 0.1


def test_a_batch_norm_model_predicts_with_new_statistics_for_every_draw() -> None:
    torch.manual_seed(0)
    model = CNN(input_shape=(1, 8, 8), num_classes=3, widths=(4,)).double()
    batches = list(torch.randn(40, 1, 8, 8, dtype=torch.float64).split(20))
    swag = SWAG(model, scale=0.0, num_samples=1, batches=batches)
    for _ in range(2):
        swag.collect(model)
        vector_to_parameters(parameters_to_vector(model.parameters()) * 2, model.parameters())
    inputs = torch.randn(5, 1, 8, 8, dtype=torch.float64)
    vector_to_parameters(swag.mean, model.parameters())
    for norm in model.modules():
        if isinstance(norm, nn.BatchNorm2d):
            norm.momentum = None  # torch's own cumulative average, for batches of equal size
    with torch.no_grad():
        for batch in batches:
            model(batch)
    torch.testing.assert_close(swag.predict(inputs), model.eval()(inputs).softmax(dim=1))


def test_refuses_what_it_cannot_use() -> None:
    with pytest.raises(ValueError, match=r"no weights to draw from: call `collect\(model\)`"):
        SWAG(Two()).predict(torch.ones(1, 1))
    with pytest.raises(ValueError, match="`batches` must be given for a model with batch norm"):
        SWAG(nn.BatchNorm1d(3))
    with pytest.raises(ValueError, match="got an iterator, which ends"):
        SWAG(nn.BatchNorm1d(3), batches=iter([torch.zeros(2, 3)]))
    swag = SWAG(nn.BatchNorm1d(3), batches=[])
    swag.collect(nn.BatchNorm1d(3))
    with pytest.raises(ValueError, match="`batches` must hold training inputs"):
        swag.predict(torch.zeros(2, 3))
    with pytest.raises(ValueError, match="`model` must have 2 parameters like the first one, got 6"):
        SWAG(Two()).collect(nn.BatchNorm1d(3))
    with pytest.raises(ValueError, match="`scale` must be at least 0, got -1"):
        SWAG(Two(), scale=-1.0)
