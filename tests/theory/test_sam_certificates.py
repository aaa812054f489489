import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from references.dense import dense_hessian
from surefoot.losses import CrossEntropy
from surefoot.optim import CSAM, SAM
from surefoot.params import displaced, flat
from surefoot.theory import ascent, sam_certificates
from surefoot.theory._ascent import Ascent, precise_cross_entropy
from surefoot.theory._sam_certificates import binary_entropy, certified


def net(seed: int, *, hidden: int = 3, num_classes: int = 3, scale: float = 1.0) -> nn.Sequential:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(2, hidden), nn.Tanh(), nn.Linear(hidden, num_classes)).double()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(scale)
    return model


def batch(seed: int, *, size: int = 4, num_classes: int = 3, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    inputs = scale * torch.randn(size, 2, generator=generator, dtype=torch.float64)
    return inputs, torch.randint(num_classes, (size,), generator=generator)


class Curve(nn.Module):
    """Logits z(w, v), 0: of two classes, on every sample."""

    def __init__(self, z: Callable[[Tensor, Tensor], Tensor], w: float) -> None:
        super().__init__()
        self.z = z
        self.w = nn.Parameter(torch.tensor(w, dtype=torch.float64))
        self.v = nn.Parameter(torch.tensor(0.0, dtype=torch.float64))

    def forward(self, inputs: Tensor) -> Tensor:
        z = self.z(self.w, self.v)
        return torch.stack([z, torch.zeros_like(z)]).expand(len(inputs), 2)


ONE = torch.zeros(1, 1, dtype=torch.float64), torch.tensor([0])


def wave(w: Tensor, v: Tensor) -> Tensor:
    return w.sin() + 0 * v


def climb(losses: list[float], perturbed: list[float], **changes: object) -> Ascent:
    fields: dict[str, object] = {
        "rho": 0.1,
        "gradient_norm": 1e-3,
        "losses": torch.tensor(losses, dtype=torch.float64),
        "perturbed_losses": torch.tensor(perturbed, dtype=torch.float64),
        "rounding": 0.0,
        "kinks": (),
        "t": torch.tensor([0.0, 1.0]),
        "kappa_min": torch.zeros(2),
        "kappa_min_floor": torch.zeros(2),
        "directional": torch.zeros(2),
        "delta": 0.05,
        "num_products": 0,
    }
    return Ascent(**{**fields, **changes})


def test_the_path_against_the_dense_hessian() -> None:
    model, (inputs, labels) = net(0, scale=2), batch(1)
    found = ascent(model, inputs, labels, rho=0.4, num_points=5, tolerance=1e-6)
    params = list(model.parameters())
    gradient = torch.autograd.grad(F.cross_entropy(model(inputs), labels), params)
    norm = flat(gradient).norm()
    assert found.gradient_norm == pytest.approx(float(norm))
    assert found.half_rise == pytest.approx(0.2 * float(norm))
    assert found.threshold == pytest.approx(-float(norm) / 0.4)
    torch.testing.assert_close(found.t, torch.linspace(0, 1, 5, dtype=torch.float64))
    for k, t in enumerate(found.t.tolist()):
        with displaced(params, by=[t * 0.4 * part / norm for part in gradient]):
            hessian = dense_hessian(model, CrossEntropy(), inputs, labels)
        smallest = float(torch.linalg.eigvalsh(hessian)[0])
        assert float(found.kappa_min[k]) == pytest.approx(smallest, rel=1e-5)
        assert float(found.kappa_min_floor[k]) <= smallest + 1e-12
        assert float(found.kappa_min_floor[k]) == pytest.approx(smallest, rel=1e-5)
        u = flat(gradient) / norm
        assert float(found.directional[k]) == pytest.approx(float(u @ hessian @ u), rel=1e-9, abs=0)
    assert found.kappa_min.diff().abs().min() > 1e-3  # a path on which nothing changes would prove nothing
    assert found.num_products >= 10


def test_probabilities_are_those_where_sam_climbs_to() -> None:
    model, (inputs, labels) = net(3), batch(4)
    found = ascent(model, inputs, labels, rho=0.3, num_points=2)
    optimizer = SAM(model.parameters(), rho=0.3, lr=0.1)
    true = model(inputs).detach().softmax(dim=1)[range(4), labels]
    assert found.probability == pytest.approx(float(true.prod() ** 0.25))
    F.cross_entropy(model(inputs), labels).backward()
    optimizer.perturb()
    true = model(inputs).detach().softmax(dim=1)[range(4), labels]
    assert found.perturbed_probability == pytest.approx(float(true.prod() ** 0.25))
    torch.testing.assert_close(found.perturbed_losses, -true.log())
    assert found.rise == pytest.approx(found.perturbed_loss - found.loss)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    size=st.integers(1, 4),
    hidden=st.integers(1, 4),
    num_classes=st.integers(2, 4),
    scale=st.floats(0.1, 6),
    rho=st.floats(0.001, 0.5),
    gamma=st.floats(0, 2),
)
def test_nothing_ever_fails(
    seed: int, size: int, hidden: int, num_classes: int, scale: float, rho: float, gamma: float
) -> None:
    model = net(seed, hidden=hidden, num_classes=num_classes, scale=scale)
    inputs, labels = batch(seed + 1, size=size, num_classes=num_classes, scale=scale)
    theory = sam_certificates(model, inputs, labels, rho=rho, gamma=gamma, num_points=5)
    assert not [c for c in theory.certificates if c.verdict == "fails"]
    assert (theory.ascent.kappa_min_floor <= theory.ascent.kappa_min + 1e-9).all()
    assert (theory.ascent.kappa_min_floor <= theory.ascent.directional + 1e-9).all()


@settings(max_examples=300, deadline=None)
@given(
    exponents=st.tuples(st.floats(-30, 2), st.floats(-30, 2)),
    gamma=st.floats(0, 2),
)
def test_theorem_2_is_true_exactly_where_the_loss_rose(exponents: tuple[float, float], gamma: float) -> None:
    before, after = (10**x for x in exponents)
    theory = certified(climb([before], [after]), gamma=gamma)
    assert theory.theorem.verdict == ("holds" if after >= before else "assumption not met")
    if after < before * (1 - 1e-4) and before > 1e-6:
        assert theory.theorem.measured > theory.theorem.bound
    assert theory.calibrated_theorem.verdict != "fails"
    inside = before <= after < math.log(2)
    assert (theory.calibrated_theorem.verdict == "holds") == inside


def test_theorem_3_needs_a_confident_sample() -> None:
    p, perturbed, gamma = 0.1, 0.0999, 2.0
    entropy = [float(binary_entropy(torch.tensor(-math.log(x), dtype=torch.float64))) for x in (p, perturbed)]
    weighted = (1 + perturbed) ** -gamma * -math.log(perturbed)  # were the weight put on every sample
    assert weighted < -math.log(p) - (1 - perturbed) / (1 - p) * entropy[0] + (1 - gamma / 2) * entropy[1]
    theory = certified(climb([-math.log(p)], [-math.log(perturbed)]), gamma=gamma)
    assert theory.calibrated_theorem.verdict == "assumption not met"
    assert "0 of 1" in theory.calibrated_theorem.assumptions[0]


def test_theorem_3_speaks_for_the_worst_sample_inside_by_the_loss_of_csam() -> None:
    p, perturbed = [0.9, 0.8, 0.6, 0.9, 0.3], [0.89, 0.6, 0.59, 0.95, 0.2]  # the last two are outside
    gamma = 1.5
    theory = certified(climb([-math.log(x) for x in p], [-math.log(x) for x in perturbed]), gamma=gamma)
    assert "3 of 5" in theory.calibrated_theorem.assumptions[0]

    def entropy(x: float) -> float:
        return -x * math.log(x) - (1 - x) * math.log(1 - x)

    optimizer = CSAM([nn.Parameter(torch.zeros(1))], rho=0.1, gamma=gamma, lr=0.1)
    optimizer.param_groups[0]["params"][0].grad = torch.ones(1)
    optimizer.perturb()
    logits = torch.tensor([[math.log(x), math.log(1 - x)] for x in perturbed], dtype=torch.float64)
    weighted = optimizer.per_sample(logits, torch.zeros(5, dtype=torch.int64)).tolist()
    ratios = []
    for k in range(3):
        smaller = -math.log(p[k]) + (1 - gamma / 2) * entropy(perturbed[k])
        larger = weighted[k] + (1 - perturbed[k]) / (1 - p[k]) * entropy(p[k])
        ratios.append((larger / smaller, smaller, larger))
    slack, smaller, larger = min(ratios)
    assert theory.calibrated_theorem.slack == pytest.approx(slack)
    assert (theory.calibrated_theorem.measured, theory.calibrated_theorem.bound) == pytest.approx((smaller, larger))


def test_past_a_maximum_the_lemma_is_not_met_and_not_true() -> None:
    theory = sam_certificates(Curve(wave, -1.0), *ONE, rho=0.9)
    assert theory.ascent.rise == pytest.approx(math.log1p(math.exp(math.sin(1.9))) - math.log1p(math.exp(math.sin(1))))
    assert theory.lemma_along_gradient.name == "Lemma 1 along the gradient"
    for found in (theory.lemma, theory.lemma_along_gradient, theory.weight_bound):
        assert found.verdict == "assumption not met"
        assert found.measured > found.bound
    assert "kappa_min >= -0.4195, got -0.7309 or less at t = 0.65" in theory.lemma.assumptions[0]
    assert "u^T H u >= -0.4195, got -0.73" in theory.lemma_along_gradient.assumptions[0]
    assert theory.theorem.verdict == "holds"  # the loss is still higher than where it came from


def test_where_the_climb_lowered_the_loss_theorem_1_is_not_met_and_not_true() -> None:
    theory = sam_certificates(Curve(wave, -1.0), *ONE, rho=2.0)
    assert theory.theorem.name == "Theorem 1"
    assert theory.theorem.verdict == "assumption not met"
    assert theory.theorem.measured > theory.theorem.bound
    assert "lowered the loss" in theory.theorem.assumptions[0]
    assert theory.calibrated_theorem.verdict == "assumption not met"


def test_a_path_sampled_too_coarsely_is_found_out() -> None:
    assert sam_certificates(Curve(wave, -0.3), *ONE, rho=3.0, num_points=2).lemma.verdict == "fails"
    assert sam_certificates(Curve(wave, -0.3), *ONE, rho=3.0).lemma.verdict == "assumption not met"


def test_curvature_across_the_path_does_no_harm() -> None:
    theory = sam_certificates(Curve(lambda w, v: w + 5 * v**2, 0.5), *ONE, rho=0.2, num_points=5)
    assert theory.lemma.verdict == "assumption not met"
    assert theory.lemma_along_gradient.verdict == "holds"
    expected = -10 / (1 + math.exp(0.5))  # d2/dv2 of softplus(-z) at v = 0
    assert float(theory.ascent.kappa_min[0]) == pytest.approx(expected)


def test_what_is_not_proved_does_not_count() -> None:
    model, (inputs, labels) = net(0, hidden=8), batch(0)
    theory = sam_certificates(model, inputs, labels, rho=0.01, num_points=3, max_products=1)
    assert theory.lemma.verdict == "assumption not met"
    assert "not proved at t = 0, 0.5, 1" in theory.lemma.assumptions[0]
    assert theory.lemma_along_gradient.verdict == "holds"
    assert sam_certificates(model, inputs, labels, rho=0.01, num_points=3).lemma.verdict == "holds"


@pytest.mark.parametrize("margin", [-2.0, 0.7, 60.0])
def test_logistic_regression_in_closed_form(margin: float) -> None:
    model = nn.Linear(2, 2, bias=False).double()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[margin, 0.0], [0.0, 0.0]], dtype=torch.float64))
    rho, width = 1.5, 2.0  # of the input, which is along the first axis
    inputs = torch.tensor([[width, 0.0]], dtype=torch.float64)
    theory = sam_certificates(model, inputs, torch.tensor([0]), rho=rho, num_points=3)
    start, stop = margin * width, margin * width - math.sqrt(2) * rho * width

    def loss(m: float) -> float:
        return math.log1p(math.exp(-m))

    norm = math.sqrt(2) * width / (1 + math.exp(start))
    assert theory.ascent.gradient_norm == pytest.approx(norm, rel=1e-12, abs=0)
    assert theory.ascent.loss == pytest.approx(loss(start), rel=1e-12, abs=0)
    assert theory.ascent.perturbed_loss == pytest.approx(loss(stop), rel=1e-12, abs=0)
    assert theory.weight == pytest.approx((1 + math.exp(start)) / (1 + math.exp(stop)), rel=1e-12, abs=0)
    middle = (start + stop) / 2
    expected = 2 * width**2 / (1 + math.exp(middle)) / (1 + math.exp(-middle))
    assert float(theory.ascent.directional[1]) == pytest.approx(expected, rel=1e-9, abs=0)
    assert theory.ascent.kappa_min.abs().max() <= 1e-12 * theory.ascent.directional.max() + 1e-40
    assert {c.verdict for c in theory.certificates[:4]} == {"holds"}
    assert theory.lemma.slack == pytest.approx((loss(stop) - loss(start)) / (rho * norm / 2), rel=1e-9, abs=0)
    left = math.exp(rho * norm / 2) / (1 + math.exp(-stop))
    if left < 0.999:
        assert theory.weight_floor == pytest.approx((1 - 1 / (1 + math.exp(-stop))) / (1 - left), rel=1e-9, abs=0)


def test_the_printed_lemma_1_is_wrong_where_the_gradient_is_long() -> None:
    inputs = torch.tensor([[10.0, 0.0]], dtype=torch.float64)
    theory = sam_certificates(net(0)[:1], inputs, torch.tensor([1]), rho=0.5, num_points=3)
    assert theory.lemma.verdict == "holds"
    printed = theory.ascent.rho * theory.ascent.gradient_norm**2 / 2
    assert printed > theory.ascent.rise


def test_lambda_0_is_infinite_where_it_is_not_defined() -> None:
    theory = certified(climb([0.05], [0.06], gradient_norm=2.0), gamma=0.0)
    assert theory.weight_floor == math.inf
    assert theory.weight_bound.verdict == "fails"  # as the lemma does: the curvature put in cannot be true
    assert theory.lemma.verdict == "fails"


def test_a_rise_below_rounding_is_not_judged() -> None:
    model, (inputs, labels) = net(0).float(), batch(0)
    theory = sam_certificates(model, inputs.float(), labels, rho=1e-6, num_points=2)
    assert theory.lemma.verdict == "assumption not met"
    assert "rounding" in theory.lemma.assumptions[0]
    assert sam_certificates(model.double(), inputs, labels, rho=1e-6, num_points=2).lemma.verdict == "holds"


def test_entropy_and_loss_keep_their_digits() -> None:
    for margin in (-800.0, -41.0, -22.0, -1.0, 0.0, 1.0, 40.0, 700.0):
        logits = torch.tensor([[0.3, 0.1 + margin, 0.1]], dtype=torch.float64, requires_grad=True)
        loss = precise_cross_entropy(logits, torch.tensor([1]))
        other = math.exp(-margin) * (1 + math.exp(0.2)) if margin > -700 else math.inf
        expected = math.log1p(other) if other < math.inf else -margin + math.log1p(math.exp(0.2))
        assert loss.item() == pytest.approx(expected, rel=1e-12, abs=0)
        (slope,) = torch.autograd.grad(loss.sum(), logits, create_graph=True)
        missing = other / (1 + other) if other < math.inf else 1.0
        assert slope[0, 1].item() == pytest.approx(-missing, rel=1e-12, abs=0)
        (bend,) = torch.autograd.grad(slope[0, 1], logits)
        assert bend[0, 1].item() == pytest.approx(missing * (1 - missing), rel=1e-9, abs=1e-15 if margin < 0 else 0)
        if other < math.inf:
            p, q = 1 / (1 + other), other / (1 + other)
            entropy = p * math.log1p(other) + q * math.log1p(1 / other)
            assert binary_entropy(loss.detach()).item() == pytest.approx(entropy, rel=1e-12, abs=0)


def test_the_loss_is_cross_entropy() -> None:
    logits = torch.randn(20, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.arange(20, dtype=torch.uint8) % 5
    torch.testing.assert_close(precise_cross_entropy(logits, labels), CrossEntropy()(logits, labels.long()))


@pytest.mark.parametrize("layer", [nn.ReLU(), nn.LeakyReLU(), nn.ELU()])
def test_a_kinked_network_does_not_meet_the_assumption(layer: nn.Module) -> None:
    model = net(0)
    model[1] = layer
    theory = sam_certificates(model, *batch(0), rho=0.01, num_points=2)
    for found in (theory.lemma, theory.lemma_along_gradient, theory.weight_bound):
        assert found.verdict == "assumption not met"
        assert "1: " in found.assumptions[0]
    assert theory.theorem.verdict == "holds"


class Failing(nn.Module):
    """Raises at the call given."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.left = at

    def forward(self, inputs: Tensor) -> Tensor:
        self.left -= 1
        if self.left == 0:
            raise RuntimeError("no more")
        return inputs


@pytest.mark.parametrize("at", [1, 4, 5, 6, 8, 10, 100])
def test_leaves_the_model_as_found(at: int) -> None:
    model = nn.Sequential(*net(0), nn.BatchNorm1d(3).double(), nn.Dropout(), Failing(at)).eval()
    model[0].train()
    inputs, labels = batch(0)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    modes = [module.training for module in model.modules()]
    state = {name: value.clone() for name, value in model.state_dict().items()}
    generator = torch.get_rng_state()
    if at < 100:
        with pytest.raises(RuntimeError, match="no more"):
            sam_certificates(model, inputs, labels, rho=0.3, num_points=3)
    else:
        assert sam_certificates(model, inputs, labels, rho=0.3, num_points=3).lemma.verdict == "holds"
        assert model[-1].left == 85  # the path is looked at in calls 6 to 14, each point in three
    for name, value in model.state_dict().items():
        assert torch.equal(value, state[name]), name
    assert all(torch.equal(p.grad, torch.ones_like(p)) for p in model.parameters())
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), generator)


def test_frozen_weights_stay_and_do_not_count() -> None:
    model, (inputs, labels) = net(0), batch(0)
    model[0].requires_grad_(False)
    found = ascent(model, inputs, labels, rho=0.3, num_points=2)
    head = model[2]
    hidden = model[:2](inputs).detach()
    alone = ascent(head, hidden, labels, rho=0.3, num_points=2)
    assert found.gradient_norm == pytest.approx(alone.gradient_norm)
    torch.testing.assert_close(found.perturbed_losses, alone.perturbed_losses)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rho": 0.0}, "`rho` must be positive and finite, got 0.0"),
        ({"rho": -1.0}, "`rho` must be positive and finite, got -1.0"),
        ({"rho": math.nan}, "`rho` must be positive and finite, got nan"),
        ({"gamma": -0.1}, r"`gamma` must lie in \[0, 2\], got -0.1"),
        ({"gamma": 2.1}, r"`gamma` must lie in \[0, 2\], got 2.1"),
        ({"num_points": 1}, "`num_points` must be at least 2, for both ends of the path, got 1"),
        ({"max_products": 0}, "`max_products` must be at least 1, got 0"),
        ({"tolerance": 0.0}, "`tolerance` must be positive, got 0.0"),
        ({"delta": 1.0}, "`delta` must lie between 0 and 1, got 1.0"),
    ],
)
def test_wrong_options_are_named(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sam_certificates(net(0), *batch(0), **{"rho": 0.1, **changes})


def test_wrong_data_is_named() -> None:
    inputs, labels = batch(0)
    with pytest.raises(ValueError, match="at least one, got 0 for 0 inputs"):
        sam_certificates(net(0), inputs[:0], labels[:0], rho=0.1)
    with pytest.raises(ValueError, match="got 3 for 4 inputs"):
        sam_certificates(net(0), inputs, labels[:3], rho=0.1)
    with pytest.raises(ValueError, match=r"`labels` must lie in 0..2, got values from 3 to 3"):
        sam_certificates(net(0), inputs, torch.full((4,), 3), rho=0.1)
    with pytest.raises(ValueError, match="gradient of the batch is zero"):
        sam_certificates(Curve(lambda w, v: 0 * (w + v), 0.0), *ONE, rho=0.1)
