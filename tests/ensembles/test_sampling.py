"""Deep ensembles, MC-Dropout and draws from bSAM."""

import pytest
import torch
from torch import Tensor, nn

from references.golden import GOLDEN
from surefoot.ensembles import BSAMSampling, DeepEnsemble, MCDropout, with_dropout
from surefoot.losses import Batch, CrossEntropy
from surefoot.models import CNN, MLP, WideResNet
from surefoot.optim import BSAM


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Fixed(nn.Module):
    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.logits.expand(len(inputs), -1)


def test_probabilities_are_averaged_not_logits() -> None:
    logits = torch.tensor(GOLDEN["_meta"]["inputs"]["B"]["logits"][:2], dtype=torch.float64)
    ensemble = DeepEnsemble([Fixed(row) for row in logits])
    expected = torch.tensor(GOLDEN["bayes_layers"]["ensemble_prob_mean_of_B0_B1"], dtype=torch.float64)
    torch.testing.assert_close(ensemble.predict(torch.zeros(1, 1))[0], expected, rtol=0, atol=1e-8)
    torch.testing.assert_close(ensemble.eval()(torch.zeros(1, 1))[0].exp(), expected, rtol=0, atol=1e-8)


def test_an_ensemble_of_one_is_its_model() -> None:
    model = CNN(input_shape=(1, 8, 8), num_classes=3, widths=(4,)).double().eval()
    inputs = normal(5, 1, 8, 8)
    ensemble = DeepEnsemble([model])
    assert torch.equal(ensemble.predict(inputs), model(inputs).softmax(dim=1))


def test_members_train_together_as_they_would_alone() -> None:
    batch = Batch(normal(6, 4), torch.tensor([0, 1, 2, 2, 1, 0]), torch.arange(6))
    ensemble = DeepEnsemble.built(lambda: MLP(input_shape=(4,), num_classes=3, widths=(5,)).double(), num_members=3)
    alone = DeepEnsemble.built(lambda: MLP(input_shape=(4,), num_classes=3, widths=(5,)).double(), num_members=3)
    together = torch.optim.SGD(ensemble.parameters(), lr=0.1, momentum=0.9)
    apart = [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in alone.models]
    for _ in range(3):
        together.zero_grad()
        ensemble.objective(CrossEntropy())(ensemble, batch).mean().backward()
        together.step()
        for model, optimizer in zip(alone.models, apart, strict=True):
            optimizer.zero_grad()
            CrossEntropy()(model(batch.inputs), batch.labels).mean().backward()
            optimizer.step()
    for one, other in zip(ensemble.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_built_members_are_those_of_their_seeds_and_the_generator_goes_on() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    ensemble = DeepEnsemble.built(lambda: nn.Linear(3, 2), num_members=2, seed=7)
    assert torch.equal(torch.get_rng_state(), before)
    for member, model in enumerate(ensemble.models):
        torch.manual_seed(7 + member)
        assert torch.equal(model.get_parameter("weight"), nn.Linear(3, 2).weight)
    with pytest.raises(ValueError, match="`models` must be at least 1, got 0"):
        DeepEnsemble([])


def test_dropout_of_rate_zero_is_the_model() -> None:
    model = CNN(input_shape=(1, 8, 8), num_classes=3, widths=(4, 8)).double().eval()
    inputs = normal(5, 1, 8, 8)
    ensemble = MCDropout(with_dropout(model, rate=0.0), num_samples=3)
    torch.testing.assert_close(ensemble.predict(inputs), model(inputs).softmax(dim=1))


def test_dropout_drops_inputs_of_all_layers_but_the_first() -> None:
    model = with_dropout(MLP(input_shape=(4,), num_classes=3, widths=(5, 6)), rate=0.3)
    places = [name for name, module in model.named_modules() if isinstance(module, nn.Dropout)]
    assert places == ["layers.3.0", "layers.5.0"]
    with pytest.raises(ValueError, match=r"`rate` must lie in \[0, 1\), got 1.0"):
        with_dropout(model, rate=1.0)


def test_draws_of_dropout_have_its_mean_and_variance() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Dropout(0.3), nn.Linear(4, 2, bias=False)).double()
    number = 20_000
    ensemble = MCDropout(model, num_samples=number).eval()
    x, w = normal(4), model[1].weight
    draws = torch.stack(list(ensemble.members(x[None])))[:, 0].detach()
    variance = (w**2 @ x**2 * 0.3 / 0.7).detach()  # an input is x / 0.7 or 0
    assert ((draws.mean(dim=0) - w @ x).abs() < 5 * (variance / number).sqrt()).all()
    assert ((draws.var(dim=0) / variance - 1).abs() < 0.1).all()


def test_batch_norm_does_not_see_the_batch_while_dropout_is_on() -> None:
    torch.manual_seed(0)
    model = WideResNet(input_shape=(3, 8, 8), num_classes=3, depth=10, width=1, dropout=0.5).double()
    ensemble = MCDropout(model, num_samples=2)
    inside: list[bool] = []
    for module in ensemble.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.register_forward_pre_hook(lambda norm, given: inside.append(norm.training))
    ensemble.predict(normal(4, 3, 8, 8))
    assert inside
    assert not any(inside)


def test_a_model_without_dropout_is_refused() -> None:
    with pytest.raises(ValueError, match="must have dropout layers, got a Linear of none: see `with_dropout`"):
        MCDropout(nn.Linear(2, 2))
    MCDropout(nn.MultiheadAttention(4, 2, dropout=0.1))


def stepped(model: nn.Module, **options: float) -> BSAM:
    optimizer = BSAM(model.parameters(), lr=0.1, num_samples=20, **options)  # type: ignore[arg-type]
    inputs, labels = normal(8, 3), torch.arange(8) % 2

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = CrossEntropy()(model(inputs), labels).mean()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    return optimizer


def test_draws_have_the_mean_and_the_variance_that_bsam_has_learnt() -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 2, bias=False).double()
    optimizer = stepped(model)
    number = 20_000
    ensemble = BSAMSampling(
        nn.Linear(3, 2, bias=False).double(), num_samples=number
    )  # other weights, until it collects
    ensemble.collect(model, optimizer)
    precision = optimizer.state[model.weight]["precision"]
    torch.testing.assert_close(ensemble.stds, (1 / (20 * precision)).sqrt().flatten())
    draws = torch.stack(list(ensemble.members(torch.eye(3, dtype=torch.float64))))  # the transposed weights
    variance = (1 / (20 * precision)).T
    assert ((draws.mean(dim=0) - model.weight.T).abs() < 5 * (variance / number).sqrt()).all()
    assert ((draws.var(dim=0) / variance - 1).abs() < 5 * (2 / number) ** 0.5).all()


def test_draws_are_as_those_of_the_optimizer_which_is_left_alone() -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 2).double()
    optimizer = stepped(model)
    generator = optimizer.state_dict()["generator"]
    ensemble = BSAMSampling(model, num_samples=5000)
    ensemble.collect(model, optimizer)
    inputs = normal(4, 3)
    found = ensemble.predict(inputs)
    assert torch.equal(optimizer.state_dict()["generator"], generator)
    draws = []
    for _ in range(5000):
        with optimizer.sampled(), torch.no_grad():
            draws.append(model(inputs).softmax(dim=1))
    expected = torch.stack(draws)
    assert ((found - expected.mean(dim=0)).abs() < 5 * 2**0.5 * expected.std(dim=0) / 5000**0.5).all()


def test_what_the_optimizer_does_not_hold_has_no_variance_and_what_never_stepped_the_first() -> None:
    model = nn.Linear(3, 2).double()
    ensemble = BSAMSampling(model)
    ensemble.collect(model, BSAM([model.weight], num_samples=5, first_precision=4.0))
    expected = torch.tensor([20**-0.5] * 6 + [0.0] * 2, dtype=torch.float64)
    torch.testing.assert_close(ensemble.stds, expected)


def test_bsam_sampling_refuses_what_it_cannot_use() -> None:
    model = nn.Linear(3, 2)
    with pytest.raises(ValueError, match=r"nothing to draw from: call `collect\(model, optimizer\)` first"):
        BSAMSampling(model).predict(torch.zeros(1, 3))
    with pytest.raises(ValueError, match="`optimizer` must be a BSAM, got a SGD"):
        BSAMSampling(model).collect(model, torch.optim.SGD(model.parameters()))
    with pytest.raises(ValueError, match="`optimizer` must hold parameters of `model`, got one of none"):
        BSAMSampling(model).collect(model, BSAM(nn.Linear(3, 2).parameters(), num_samples=5))
