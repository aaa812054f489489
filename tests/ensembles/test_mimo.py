import pytest
import torch
from torch import Tensor, nn

from references.golden import GOLDEN
from surefoot.ensembles import MIMO
from surefoot.losses import Batch, CrossEntropy
from surefoot.models import CNN, MLP, WideResNet


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("k", [10, 100])
def test_the_published_number_of_parameters(k: int) -> None:
    with torch.device("meta"):
        model = WideResNet(input_shape=(3, 32, 32), num_classes=k)
    ensemble = MIMO(model, num_members=3)
    found = sum(p.numel() for p in ensemble.parameters())
    assert found == GOLDEN["network_param_counts"][f"wrn28_10_mimo3_K{k}"]
    assert all(p.is_meta for p in ensemble.parameters())


class Constant(nn.Module):
    """Gives the logits of the golden case for whatever it is given."""

    def forward(self, inputs: Tensor) -> Tensor:
        logits = torch.tensor(GOLDEN["bayes_layers"]["mimo_nll"]["logits[member]"], dtype=torch.float64)
        return logits.flatten().expand(len(inputs), -1)


class Ordered(MIMO):
    """The first two members get the first sample, the third the second."""

    def orders(self, number: int, *, device: torch.device | None = None) -> Tensor:
        return torch.tensor([[0], [0], [1]])


def test_the_objective_is_the_golden_sum_over_members() -> None:
    case = GOLDEN["bayes_layers"]["mimo_nll"]
    ensemble = Ordered(nn.Linear(1, 3), num_members=3, batch_repetitions=1)
    ensemble.model = Constant()
    batch = Batch(torch.zeros(2, 1), torch.tensor([case["labels"][0], case["labels"][2]]), torch.arange(2))
    assert case["labels"][0] == case["labels"][1]
    values = ensemble.objective(CrossEntropy())(ensemble, batch)
    assert abs(float(values.sum()) - case["sum_over_members"]) < 1e-8


def test_channels_are_stacked_channel_by_channel() -> None:
    seen: list[Tensor] = []
    ensemble = MIMO(nn.Sequential(nn.Flatten(), nn.Linear(8, 6)), num_members=2)
    ensemble.model.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    first, second = torch.arange(8.0).view(1, 2, 2, 2), 100 + torch.arange(8.0).view(1, 2, 2, 2)
    ensemble._logits([first, second])
    expected = torch.stack([first[0, 0], second[0, 0], first[0, 1], second[0, 1]])
    assert torch.equal(seen[0][0], expected)


def test_every_member_gets_every_sample_as_often_in_an_order_of_its_own() -> None:
    torch.manual_seed(0)
    ensemble = MIMO(nn.Linear(4, 3), num_members=3, batch_repetitions=4)
    orders = ensemble.orders(16)
    assert orders.shape == (3, 64)
    for order in orders:
        assert torch.equal(order.bincount(), torch.full((16,), 4))
    pairs = [(0, 1), (0, 2), (1, 2)]
    assert all(int((orders[a] == orders[b]).sum()) < 20 for a, b in pairs)  # 4 expected


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_a_share_of_rows_can_be_the_same_for_all(share: float) -> None:
    torch.manual_seed(0)
    orders = MIMO(nn.Linear(4, 3), num_members=2, input_repetition=share).orders(1000)
    same = float((orders[0] == orders[1]).double().mean())
    assert abs(same - share) < 0.01
    assert torch.equal(orders[0].bincount(), orders[1].bincount())


def test_the_objective_is_that_of_rows_written_out() -> None:
    torch.manual_seed(0)
    ensemble = MIMO(MLP(input_shape=(4,), num_classes=3, widths=(5,)), num_members=2, batch_repetitions=3).double()
    batch = Batch(normal(6, 4), torch.tensor([0, 1, 2, 2, 1, 0]), torch.arange(6))
    torch.manual_seed(1)
    values = ensemble.objective(CrossEntropy())(ensemble, batch)
    torch.manual_seed(1)
    orders = ensemble.orders(6)
    expected = torch.zeros(6, dtype=torch.float64)
    whole = 0.0
    for first, second in orders.T.tolist():
        mixed = torch.stack([batch.inputs[first], batch.inputs[second]], dim=1).flatten()[None]
        heads = ensemble.model(mixed).view(2, 3).log_softmax(dim=1).detach()
        for head, sample in zip(heads, (first, second), strict=True):
            expected[sample] += -head[batch.labels[sample]] / 3
            whole += -float(head[batch.labels[sample]])
    torch.testing.assert_close(values.detach(), expected)
    assert abs(values.mean().item() - whole / 18) < 1e-12  # the mean over rows of the sum over members


def test_one_member_has_the_shape_of_the_model() -> None:
    model = CNN(input_shape=(3, 8, 8), num_classes=5, widths=(4,))
    ensemble = MIMO(model, num_members=1)
    assert [p.shape for p in ensemble.parameters()] == [p.shape for p in model.parameters()]


def test_a_single_layer_is_widened_at_both_ends() -> None:
    wide = MIMO(nn.Linear(4, 3), num_members=2).model
    assert isinstance(wide, nn.Linear)
    assert (wide.in_features, wide.out_features) == (8, 6)


def test_wider_layers_start_as_large_as_the_given_ones() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(16, 256, 3), nn.Flatten(), nn.Linear(256, 64))
    nn.init.kaiming_normal_(model[0].weight, nonlinearity="relu")
    ensemble = MIMO(model, num_members=4)
    first, last = ensemble.model[0].weight, ensemble.model[2].weight
    torch.testing.assert_close(first.std(), torch.tensor((2 / (4 * 16 * 9)) ** 0.5), rtol=0.02, atol=0)
    torch.testing.assert_close(last.std(), model[2].weight.std(), rtol=0.02, atol=0)
    torch.testing.assert_close(ensemble.model[2].bias.view(4, 64), model[2].bias.expand(4, 64))


def test_refuses_what_it_cannot_widen() -> None:
    for model, message in (
        (nn.ReLU(), "must have a Linear or Conv2d layer to widen, got a ReLU of none"),
        (nn.Sequential(nn.Linear(4, 4), nn.Conv2d(4, 4, 1)), "The last layer must be Linear to be widened, got '1'"),
        (nn.Sequential(nn.Conv2d(4, 4, 1, groups=2), nn.Linear(4, 4)), "must not be grouped .* got 2 groups in '0'"),
    ):
        with pytest.raises(ValueError, match=message):
            MIMO(model)
    with pytest.raises(ValueError, match=r"`input_repetition` must lie in \[0, 1\], got 2"):
        MIMO(nn.Linear(2, 2), input_repetition=2.0)
