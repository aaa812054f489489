import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from references.golden import GOLDEN
from surefoot.ensembles import BatchEnsemble, Rank1
from surefoot.ensembles.batch_ensemble import BatchEnsembleLayer
from surefoot.losses import Batch, CrossEntropy
from surefoot.models import CNN, MLP, WideResNet


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_layer_is_the_golden_one() -> None:
    case = {key: torch.tensor(value, dtype=torch.float64) for key, value in _case().items()}
    layer = BatchEnsembleLayer(nn.Linear(3, 2).double(), num_members=1, spread=0.0)
    with torch.no_grad():
        layer.layer.weight.copy_(case["W"])
        for own, value in ((layer.into, "r"), (layer.out, "s"), (layer.bias, "b")):
            assert own is not None
            own.copy_(case[value][None])
    torch.testing.assert_close(layer(case["x"][None])[0], case["y"], rtol=0, atol=1e-8)


def _case() -> dict[str, list[float]]:
    case: dict[str, list[float]] = GOLDEN["bayes_layers"]["batchensemble_linear"]
    return case


@pytest.mark.parametrize("shape", [(6, 4), (6, 5, 4)])
def test_member_m_of_a_linear_layer_is_dense(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    layer = BatchEnsembleLayer(nn.Linear(4, 3).double(), num_members=3, spread=0.5)
    inputs = normal(*shape)
    outputs = layer(inputs)
    assert layer.bias is not None
    for member in range(3):
        rows = slice(2 * member, 2 * member + 2)
        dense = layer.layer.weight * torch.outer(layer.out[member], layer.into[member])
        torch.testing.assert_close(outputs[rows], F.linear(inputs[rows], dense, layer.bias[member]))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("mode", ["zeros", "circular"])
def test_member_m_of_a_convolution_is_dense(groups: int, mode: str) -> None:
    torch.manual_seed(0)
    plain = nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=groups, padding_mode=mode).double()
    layer = BatchEnsembleLayer(plain, num_members=2, spread=0.5)
    inputs = normal(6, 4, 5, 5)
    outputs = layer(inputs)
    assert layer.bias is not None
    for member in range(2):
        rows = slice(3 * member, 3 * member + 3)
        into = layer.into[member].view(groups, 1, -1).expand(groups, 6 // groups, -1).reshape(6, -1)
        dense = plain.weight * (layer.out[member][:, None] * into)[:, :, None, None]
        expected = plain._conv_forward(inputs[rows], dense, layer.bias[member])
        torch.testing.assert_close(outputs[rows], expected)


def test_one_member_of_no_spread_is_the_model() -> None:
    model = CNN(input_shape=(1, 8, 8), num_classes=3, widths=(4,)).double().eval()
    ensemble = BatchEnsemble(model, num_members=1, spread=0.0)
    inputs = normal(5, 1, 8, 8)
    torch.testing.assert_close(ensemble.predict(inputs), model(inputs).softmax(dim=1))


def test_the_objective_is_the_mean_over_members_of_the_same_samples() -> None:
    torch.manual_seed(0)
    ensemble = BatchEnsemble(MLP(input_shape=(4,), num_classes=3, widths=(5,)), num_members=3).double()
    batch = Batch(normal(6, 4), torch.tensor([0, 1, 2, 2, 1, 0]), torch.arange(6))
    members = [CrossEntropy()(logits, batch.labels) for logits in ensemble.members(batch.inputs)]
    found = ensemble.objective(CrossEntropy())(ensemble, batch)
    torch.testing.assert_close(found, torch.stack(members).mean(dim=0))
    assert len({member.sum().item() for member in members}) == 3


@pytest.mark.parametrize("k", [10, 100])
def test_the_published_number_of_parameters(k: int) -> None:
    with torch.device("meta"):
        model = WideResNet(input_shape=(3, 32, 32), num_classes=k)
    found = sum(p.numel() for p in BatchEnsemble(model, num_members=4).parameters())
    assert found == GOLDEN["network_param_counts"][f"wrn28_10_batchensemble4_K{k}"]


def test_factors_start_around_one() -> None:
    torch.manual_seed(0)
    factors = BatchEnsemble(nn.Linear(20_000, 2), num_members=4).model.into
    assert isinstance(factors, nn.Parameter)
    factors = factors.detach()
    assert abs(float(factors.mean()) - 1) < 5 * 0.5 / 80_000**0.5
    assert abs(float(factors.std()) - 0.5) < 5 * 0.5 / 160_000**0.5


def test_the_groups_hold_every_parameter_once_and_spare_the_factors() -> None:
    ensemble = BatchEnsemble(CNN(input_shape=(1, 8, 8), num_classes=3, widths=(4, 8)), num_members=2)
    shared, factors, biases = ensemble.groups(lr=0.1, weight_decay=6e-4)
    held = [p for group in (shared, factors, biases) for p in group["params"]]
    assert sorted(map(id, held)) == sorted(map(id, ensemble.parameters()))
    assert [len(group["params"]) for group in (shared, factors, biases)] == [7, 6, 1]  # 3 layers and 2 batch norms
    assert [(group["lr"], group["weight_decay"]) for group in (shared, factors, biases)] == [
        (0.1, 6e-4),
        (0.05, 0.0),
        (0.05, 6e-4),
    ]
    torch.optim.SGD([shared, factors, biases]).step()


def test_a_batch_that_does_not_divide_is_refused() -> None:
    ensemble = BatchEnsemble(nn.Linear(2, 2), num_members=4)
    with pytest.raises(ValueError, match="equally many rows for each of 4 members, got 6 rows: call the ensemble"):
        ensemble.model(torch.zeros(6, 2))


def test_a_layer_used_twice_stays_one_layer() -> None:
    layer = nn.Linear(4, 4)
    ensemble = BatchEnsemble(nn.Sequential(layer, nn.ReLU(), layer), num_members=2)
    assert sum(p.numel() for p in ensemble.parameters()) == 16 + 2 * (4 + 4 + 4)


def test_rank1_of_no_variance_is_batch_ensemble() -> None:
    torch.manual_seed(0)
    model = CNN(input_shape=(1, 8, 8), num_classes=3, widths=(4, 8)).double()
    rank1 = Rank1(model, num_members=3, num_train=10)
    plain = BatchEnsemble(model, num_members=3)
    state = rank1.state_dict()
    plain.load_state_dict({key: state[key] for key in plain.state_dict()})
    with torch.no_grad():
        for name, p in rank1.named_parameters():
            if name.endswith("_rho"):
                p.fill_(-torch.inf)
    inputs = normal(5, 1, 8, 8)
    assert torch.equal(rank1.predict(inputs), plain.predict(inputs))
