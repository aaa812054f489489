"""What every ensemble in the registry promises."""

from collections.abc import Callable
from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn

from surefoot.data import Split, digits
from surefoot.ensembles import (
    ENSEMBLES,
    MIMO,
    SWAG,
    BatchEnsemble,
    BSAMSampling,
    DeepEnsemble,
    Ensemble,
    MCDropout,
    Rank1,
    Variational,
    with_dropout,
)
from surefoot.losses import Batch, CrossEntropy
from surefoot.models import CNN, MLP, ViT
from surefoot.optim import BSAM
from surefoot.training.snapshot import Snapshot

DATA = digits()
IMAGES = DATA.train.inputs.view(-1, 1, 8, 8)
NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: MLP(input_shape=(1, 8, 8), num_classes=10, widths=(32,), activation="relu"),
    "cnn": lambda: CNN(input_shape=(1, 8, 8), num_classes=10, widths=(4, 8)),
    "vit": lambda: ViT(input_shape=(1, 8, 8), num_classes=10, patch=4, dim=12, depth=1, heads=3, mlp=16),
}
BUILD: dict[str, Callable[[Callable[[], nn.Module]], Ensemble]] = {
    "batch_ensemble": lambda network: BatchEnsemble(network(), num_members=3),
    "bsam": lambda network: BSAMSampling(network(), num_samples=4),
    "deep_ensemble": lambda network: DeepEnsemble([network() for _ in range(3)]),
    "mc_dropout": lambda network: MCDropout(with_dropout(network(), rate=0.2), num_samples=4),
    "mimo": lambda network: MIMO(network(), num_members=2),
    "rank1": lambda network: Rank1(network(), num_train=1200, num_members=3),
    "swag": lambda network: SWAG(network(), num_samples=4, max_rank=3, batches=list(IMAGES[:256].split(128))),
    "variational": lambda network: Variational(network(), num_train=1200, first_std=0.05),
}
RANDOM = ["bsam", "mc_dropout", "rank1", "swag", "variational"]  # when they predict
ALL = pytest.mark.parametrize("name", ENSEMBLES)
EVERYWHERE = pytest.mark.parametrize("network", NETWORKS)


def batch(number: int = 64, start: int = 0) -> Batch:
    rows = torch.arange(start, start + number) % len(IMAGES)
    return Batch(IMAGES[rows], DATA.train.labels[rows], rows)


def built(name: str, network: str = "mlp", *, seed: int = 0) -> Ensemble:
    torch.manual_seed(seed)
    return BUILD[name](NETWORKS[network])


def trained(name: str, network: str = "mlp", *, num_steps: int = 3, seed: int = 0) -> Ensemble:
    ensemble = built(name, network, seed=seed)
    objective = ensemble.objective(CrossEntropy())
    optimizer: torch.optim.Optimizer
    if isinstance(ensemble, BSAMSampling):
        optimizer = BSAM(ensemble.model.parameters(), lr=0.5, num_samples=1200, prior_precision=1.0)
    else:
        optimizer = torch.optim.SGD(ensemble.parameters(), lr=0.1, momentum=0.9)
    ensemble.train()
    for step in range(num_steps):
        samples = batch(start=64 * step)

        def closure(samples: Batch = samples) -> Tensor:
            optimizer.zero_grad()
            loss = objective(ensemble, samples).mean()
            loss.backward()
            return loss

        optimizer.step(closure)
        if isinstance(ensemble, SWAG) and step >= num_steps // 2:
            ensemble.collect(ensemble.model)
    if isinstance(ensemble, BSAMSampling):
        ensemble.collect(ensemble.model, optimizer)
    return ensemble


def test_the_table_is_whole() -> None:
    assert ENSEMBLES.keys() == BUILD.keys()
    for name, kind in ENSEMBLES.items():
        assert type(built(name)) is kind


@ALL
@EVERYWHERE
def test_predictions_are_probabilities_the_same_for_the_same_seed(name: str, network: str) -> None:
    ensemble = trained(name, network)
    first, again, other = (ensemble.predict(IMAGES[:20], seed=seed) for seed in (3, 3, 4))
    assert first.shape == (20, 10)
    assert first.min() >= 0
    assert not first.requires_grad
    torch.testing.assert_close(first.sum(dim=1), torch.ones(20))
    assert torch.equal(first, again)
    assert torch.equal(first, other) == (name not in RANDOM)


@ALL
@EVERYWHERE
def test_predicting_leaves_everything_as_found(name: str, network: str) -> None:
    ensemble = trained(name, network)
    frozen = next(module for module in ensemble.modules() if isinstance(module, nn.ReLU | nn.GELU))
    frozen.eval()  # one module in another mode than the rest
    state = deepcopy(ensemble.state_dict())
    modes = [module.training for module in ensemble.modules()]
    momenta = [getattr(module, "momentum", None) for module in ensemble.modules()]
    gradients = [None if p.grad is None else p.grad.clone() for p in ensemble.parameters()]
    generator = torch.get_rng_state()
    ensemble.predict(IMAGES[:20], seed=3)
    assert torch.equal(torch.get_rng_state(), generator)
    assert modes == [module.training for module in ensemble.modules()]
    assert momenta == [getattr(module, "momentum", None) for module in ensemble.modules()]
    assert all(torch.equal(value, state[key]) for key, value in ensemble.state_dict().items())
    for p, before in zip(ensemble.parameters(), gradients, strict=True):
        assert (p.grad is None) if before is None else torch.equal(p.grad, before)


@pytest.mark.parametrize("name", sorted(ENSEMBLES.keys() - {"deep_ensemble"}))  # which holds the models given
@EVERYWHERE
def test_the_given_model_is_left_alone(name: str, network: str) -> None:
    given: list[nn.Module] = []

    def keep() -> nn.Module:
        given.append(NETWORKS[network]().eval())
        return given[-1]

    torch.manual_seed(0)
    ensemble = BUILD[name](keep)
    (model,) = given
    torch.manual_seed(0)
    fresh = NETWORKS[network]().eval()
    assert torch.equal(model(IMAGES[:5]), fresh(IMAGES[:5]))
    assert {id(p) for p in model.parameters()}.isdisjoint({id(p) for p in ensemble.parameters()})


@ALL
@EVERYWHERE
def test_in_training_every_parameter_has_a_gradient(name: str, network: str) -> None:
    ensemble = trained(name, network, num_steps=1)
    ensemble.zero_grad()
    values = ensemble.objective(CrossEntropy())(ensemble, batch())
    assert values.shape == (64,)
    values.mean().backward()
    for parameter, p in ensemble.named_parameters():
        assert p.grad is not None, parameter
        assert p.grad.isfinite().all(), parameter
        assert p.grad.abs().max() > 0, parameter


@ALL
@EVERYWHERE
def test_a_state_carried_over_predicts_the_same_bit_for_bit_and_trains_on_the_same(name: str, network: str) -> None:
    one, other = trained(name, network), built(name, network, seed=1)
    other.load_state_dict(one.state_dict())
    assert torch.equal(one.predict(IMAGES[:20], seed=3), other.predict(IMAGES[:20], seed=3))
    losses = []
    for ensemble in (one, other):
        torch.manual_seed(2)
        losses.append(ensemble.train().objective(CrossEntropy())(ensemble, batch()))
    assert torch.equal(*losses)


@ALL
def test_looked_at_as_a_model_it_is_one_fixed_classifier(name: str) -> None:
    ensemble = trained(name)
    split = Split(IMAGES[:20], DATA.train.labels[:20])
    generator = torch.get_rng_state()
    snapshots = [Snapshot(0, ensemble, ensemble.objective(CrossEntropy()), {"train": split}) for _ in range(2)]
    probabilities = snapshots[0].predictions("train").probabilities.float()
    torch.testing.assert_close(probabilities, ensemble.predict(split.inputs, seed=0))
    assert snapshots[0].loss("train") == snapshots[1].loss("train")
    assert torch.equal(torch.get_rng_state(), generator)
    assert ensemble.training


@ALL
def test_float64_stays_float64(name: str) -> None:
    ensemble = trained(name).double()
    if isinstance(ensemble, SWAG):
        ensemble.batches = [inputs.double() for inputs in ensemble.batches]
    assert ensemble.predict(IMAGES[:5].double()).dtype == torch.float64
    samples = batch()
    doubled = Batch(samples.inputs.double(), samples.labels, samples.indices)
    assert ensemble.objective(CrossEntropy())(ensemble, doubled).dtype == torch.float64


@ALL
def test_learns_the_digits(name: str) -> None:
    ensemble = trained(name, num_steps=60)
    inputs = DATA.test.inputs.view(-1, 1, 8, 8)
    accuracy = (ensemble.predict(inputs).argmax(dim=1) == DATA.test.labels).double().mean()
    assert accuracy > 0.85


@ALL
def test_the_objective_refuses_a_model_that_is_not_the_ensemble(name: str) -> None:
    objective = built(name).objective(CrossEntropy())
    with pytest.raises(ValueError, match="`model` must be the ensemble that gave this objective, got a Linear"):
        objective(nn.Linear(2, 2), batch())


@pytest.mark.parametrize("name", ["batch_ensemble", "rank1", "variational"])
def test_what_cannot_be_converted_is_refused_by_name(name: str) -> None:
    make = ENSEMBLES[name] if name == "batch_ensemble" else lambda model: ENSEMBLES[name](model, num_train=1)
    inner = nn.Sequential(nn.Linear(4, 4), nn.MultiheadAttention(4, 2))
    for model, message in (
        (nn.Sequential(nn.Linear(4, 4), inner), "layer '1.1', a MultiheadAttention, cannot be converted"),
        (nn.Sequential(nn.Linear(4, 4), nn.GRU(4, 4)), "layer '1', a GRU, cannot be converted"),
        (nn.Conv1d(4, 4, 1), "layer '', a Conv1d, cannot be converted"),
        (nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))), "'0', a ParametrizedLinear, cannot"),
        (nn.ReLU(), "must have a Linear or Conv2d layer to convert, got a ReLU of none"),
    ):
        with pytest.raises(ValueError, match=message):
            make(model)


@pytest.mark.parametrize("name", ["mimo", "batch_ensemble", "rank1", "mc_dropout", "swag", "bsam", "variational"])
def test_refuses_less_than_one_member_or_draw(name: str) -> None:
    given = {"num_train": 1} if name in ("rank1", "variational") else {}
    counted = "num_members" if name in ("batch_ensemble", "mimo", "rank1") else "num_samples"
    with pytest.raises(ValueError, match=f"`{counted}` must be at least 1, got 0"):
        ENSEMBLES[name](nn.Sequential(nn.Dropout(), nn.Linear(2, 2)), **given, **{counted: 0})
