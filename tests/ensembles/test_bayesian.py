import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence
from torch.nn import functional as F

from references.golden import GOLDEN
from surefoot.ensembles import Rank1, Variational
from surefoot.ensembles._normal import divergence, first_rho, inverse_softplus
from surefoot.ensembles.rank1 import Rank1Layer
from surefoot.ensembles.variational import FlipoutLayer
from surefoot.losses import Batch, CrossEntropy
from surefoot.models import CNN

CASES = GOLDEN["bayes_layers"]


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def flipout(layer: nn.Linear | nn.Conv2d) -> FlipoutLayer:
    return FlipoutLayer(layer.double(), first_std=0.3, prior_std=0.1, prior_mean="tied")


def test_divergences_and_first_values_are_the_golden_ones() -> None:
    one = torch.ones((), dtype=torch.float64)
    apart = divergence(1.2 * one, 0.05 * one, prior_mean=1.0, prior_std=0.1)
    assert abs(float(apart) - CASES["KL_normal(mu=1.2,sd=0.05||1,0.1)"]) < 1e-8
    tied = divergence(7 * one, 0.001 * one, prior_mean=7 * one, prior_std=0.1)
    assert abs(float(tied) - CASES["KL_tied_mean(sd=0.001,prior sd 0.1)"]) < 1e-8
    first_std = (1e-3 / (1 - 1e-3)) ** 0.5
    assert abs(first_std - CASES["rank1_init_stddev"]) < 1e-7
    assert abs(inverse_softplus(first_std) - CASES["rank1_init_rho(softplus_inverse)"]) < 1e-8
    assert abs(inverse_softplus(1e-3) - CASES["vi_init_rho(softplus_inverse(1e-3))"]) < 1e-8


def test_the_divergence_is_torchs_and_that_of_many_draws() -> None:
    mean, std = normal(5), 0.1 + normal(5, seed=1).abs()
    ours = divergence(mean, std, prior_mean=0.3, prior_std=0.7)
    own, prior = Normal(mean, std), Normal(exact(0.3), exact(0.7))
    torch.testing.assert_close(ours, kl_divergence(own, prior))
    draws = mean + std * normal(200_000, 5, seed=2)
    values = own.log_prob(draws) - prior.log_prob(draws)
    assert ((values.mean(dim=0) - ours).abs() < 5 * values.std(dim=0) / 200_000**0.5).all()


def exact(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def test_deviations_start_near_the_one_asked_for() -> None:
    torch.manual_seed(0)
    rho = first_rho(torch.empty(10_000, dtype=torch.float64), std=1e-3)
    assert (rho - inverse_softplus(1e-3)).abs().max() <= 0.2
    assert abs(float(rho.mean()) - inverse_softplus(1e-3)) < 5 * 0.1 / 100


@pytest.mark.parametrize("shape", [(3, 4), (3, 2, 4)])
def test_flipout_has_the_mean_and_the_variance_of_independent_weights(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    layer = flipout(nn.Linear(4, 5))
    inputs = normal(*shape)
    number = 4_000
    with torch.no_grad():
        draws = torch.stack([layer(inputs) for _ in range(number)])
        variance = F.linear(inputs**2, F.softplus(layer.rho) ** 2)
        off = draws.mean(dim=0) - layer.layer(inputs)
    assert (off.abs() < 5 * (variance / number).sqrt()).all()
    assert ((draws.var(dim=0) / variance - 1).abs() < 5 * (2 / number) ** 0.5).all()
    noise = (draws - layer.layer(inputs).detach()) / variance.sqrt()
    assert float((noise[:, 0] * noise[:, 1]).mean(dim=0).abs().max()) < 5 * 3**0.5 / number**0.5  # of two samples


@pytest.mark.parametrize(("into", "out"), [(2, 1), (1, 2)])
def test_flipout_flips_inputs_and_outputs_of_one_draw_for_every_sample(into: int, out: int) -> None:
    torch.manual_seed(0)
    layer = flipout(nn.Linear(into, out))
    inputs = torch.ones(64, into, dtype=torch.float64)
    with torch.no_grad():
        noise = (layer(inputs) - layer.layer(inputs)).mul(1e9).round().unique(dim=0)
    assert len(noise) == 4  # a and b with either sign: their sums, or the two of them
    torch.testing.assert_close(noise, -noise.flip(0))


@pytest.mark.parametrize("groups", [1, 2])
def test_flipout_of_a_convolution_has_the_mean_and_the_variance_of_independent_weights(groups: int) -> None:
    torch.manual_seed(0)
    plain = nn.Conv2d(4, 2, 3, stride=2, padding=1, groups=groups)
    layer = flipout(plain)
    inputs = normal(2, 4, 5, 5)
    number = 4_000
    with torch.no_grad():
        draws = torch.stack([layer(inputs) for _ in range(number)])
        variance = plain._conv_forward(inputs**2, F.softplus(layer.rho) ** 2, None)
        off = draws.mean(dim=0) - plain(inputs)
    assert (off.abs() < 5 * (variance / number).sqrt()).all()
    assert ((draws.var(dim=0) / variance - 1).abs() < 5 * (2 / number) ** 0.5).all()


def test_rank1_draws_factors_for_every_sample_with_their_mean_and_variance() -> None:
    torch.manual_seed(0)
    layer = Rank1Layer(nn.Linear(3, 2, bias=False).double(), num_members=2, first_std=0.3, prior_std=0.1)
    number = 40_000
    inputs = normal(2, 3).repeat_interleave(number, dim=0)
    with torch.no_grad():
        outputs = layer(inputs).view(2, number, 2)
        for member in range(2):
            x, w = inputs[number * member], layer.layer.weight
            into, out = layer.into[member], layer.out[member]
            into_var, out_var = F.softplus(layer.into_rho[member]) ** 2, F.softplus(layer.out_rho[member]) ** 2
            mean = (w @ (x * into)) * out
            inner_var = (w**2) @ (x**2 * into_var)
            variance = inner_var * (out_var + out**2) + (w @ (x * into)) ** 2 * out_var  # of a product
            assert ((outputs[member].mean(dim=0) - mean).abs() < 5 * (variance / number).sqrt()).all()
            assert ((outputs[member].var(dim=0) / variance - 1).abs() < 0.1).all()


def test_rank1_cuts_factors() -> None:
    layer = Rank1Layer(nn.Linear(1, 1, bias=False).double(), num_members=1, first_std=1e-3, prior_std=0.1)
    with torch.no_grad():
        layer.layer.weight.fill_(1.0)
        layer.into.fill_(50.0)
        layer.out.fill_(-50.0)
    assert layer(torch.ones(1, 1, dtype=torch.float64)).item() == -100.0


def test_no_variance_is_the_network_of_the_means() -> None:
    torch.manual_seed(0)
    model = CNN(input_shape=(1, 8, 8), num_classes=3, widths=(4, 8)).double().eval()
    ensemble = Variational(model, num_train=10)
    with torch.no_grad():
        for name, p in ensemble.named_parameters():
            if name.endswith("rho"):
                p.fill_(-torch.inf)
    inputs = normal(5, 1, 8, 8)
    torch.testing.assert_close(ensemble.predict(inputs), model(inputs).softmax(dim=1))


@pytest.mark.parametrize("prior_mean", ["tied", 0.0])
def test_the_term_of_a_variational_network_is_the_sum_over_weights(prior_mean: float | str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    ensemble = Variational(model, num_train=10, prior_mean=prior_mean, prior_std=0.2)  # type: ignore[arg-type]
    expected = 0.0
    for layer in ensemble.modules():
        if isinstance(layer, FlipoutLayer):
            std, mean = F.softplus(layer.rho).detach(), layer.layer.weight.detach()
            off = 0.0 if prior_mean == "tied" else (mean**2).sum().item()
            expected += float((0.2 / std).log().sum() + ((std**2).sum() + off) / 0.08) - 0.5 * std.numel()
    torch.testing.assert_close(ensemble.kl(), exact(expected))
    (gradient,) = torch.autograd.grad(ensemble.kl(), ensemble.model[0].layer.weight, allow_unused=True)
    assert bool((gradient is None or not gradient.any()) == (prior_mean == "tied"))


def test_the_term_of_rank1_is_the_sum_over_factors() -> None:
    ensemble = Rank1(nn.Linear(3, 2).double(), num_members=4, num_train=10)
    layer = ensemble.model
    assert isinstance(layer, Rank1Layer)
    expected = exact(0.0)
    for mean, rho in ((layer.into, layer.into_rho), (layer.out, layer.out_rho)):
        std = F.softplus(rho)
        expected = expected + ((0.1 / std).log() + (std**2 + (mean - 1) ** 2) / 0.02 - 0.5).sum()
    torch.testing.assert_close(ensemble.kl(), expected)


@pytest.mark.parametrize("kind", [Rank1, Variational])
def test_the_term_grows_with_every_gradient_and_only_in_training(kind: type[Rank1] | type[Variational]) -> None:
    torch.manual_seed(0)
    ensemble = kind(nn.Linear(3, 2).double(), num_train=50, anneal_steps=4)
    batch = Batch(normal(6, 3), torch.tensor([0, 1, 0, 1, 1, 0]), torch.arange(6))
    objective = ensemble.objective(CrossEntropy())
    weights = []
    for _ in range(6):
        torch.manual_seed(1)
        plain = ensemble.losses(batch, CrossEntropy())
        torch.manual_seed(1)
        extra = objective(ensemble, batch) - plain
        torch.testing.assert_close(extra, extra[:1].expand(6))
        weights.append((extra[0] * 50 / ensemble.kl()).detach())
    torch.testing.assert_close(torch.stack(weights), torch.tensor([0.25, 0.5, 0.75, 1, 1, 1]).double())
    ensemble.eval()
    objective(ensemble, batch)
    assert int(ensemble.state_dict()["kl_step"]) == 6


def test_refuses_what_it_cannot_be() -> None:
    for options, message in (
        ({"num_train": 0}, "`num_train` must be at least 1, got 0"),
        ({"anneal_steps": 0}, "`anneal_steps` must be at least 1, got 0"),
        ({"first_std": 0.0}, "`first_std` must be positive, got 0.0"),
        ({"prior_std": -1.0}, "`prior_std` must be positive, got -1.0"),
    ):
        for kind in (Rank1, Variational):
            with pytest.raises(ValueError, match=message):
                kind(nn.Linear(3, 2), **{"num_train": 10, **options})  # type: ignore[arg-type]
