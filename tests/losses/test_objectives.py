"""Objectives against numbers worked out elsewhere and against what they must be in their limits."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from references.golden import GOLDEN, inputs
from surefoot.losses import MITL, ARAdaLS, BalCAL, Batch, CrossEntropy, MaCS, Mixup, TwoHeads
from surefoot.losses.ar_adals import smoothing
from surefoot.losses.balcal import balanced_share, class_weights
from surefoot.losses.macs import blurred
from surefoot.losses.mit_l import decoded
from surefoot.losses.mixup import mixed_cross_entropy
from surefoot.losses.two_heads import simplex
from surefoot.models import CNN, MLP, ResNet
from surefoot.predictions import Predictions


def batch(n: int = 16, *, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (n,), generator=generator)
    return Batch(torch.randn(n, 4, generator=generator, dtype=torch.float64), labels, torch.arange(n))


def test_mixup_as_worked_out_elsewhere() -> None:
    logits, labels = inputs("B")
    found = mixed_cross_entropy(logits, labels, torch.tensor([2, 2, 0, 0]), 0.7).mean()
    assert found.item() == pytest.approx(GOLDEN["mixup"]["B_logits_lam0.7_yb=[2,2,0,0]"], abs=1e-7)
    whole = mixed_cross_entropy(logits, labels, torch.tensor([2, 2, 0, 0]), 1.0)
    torch.testing.assert_close(whole, CrossEntropy()(logits, labels))


def test_mixup_mixes_inputs_and_labels_alike_and_anew_in_each_step_and_batch() -> None:
    torch.manual_seed(0)
    model, data = nn.Linear(4, 3).double(), batch()
    loss = Mixup(seed=3)
    seen: list[Tensor] = []
    hook = model.register_forward_hook(lambda module, given, output: seen.append(given[0]))
    values = loss(model, data)
    hook.remove()
    generator = loss.generator(data)
    share, partner = generator.beta(1.0, 1.0), generator.permutation(16)
    mixed = share * data.inputs + (1 - share) * data.inputs[partner]
    torch.testing.assert_close(seen[0], mixed)
    expected = [
        share * -model(mixed).log_softmax(1)[i, data.labels[i]]
        + (1 - share) * -model(mixed).log_softmax(1)[i, data.labels[partner[i]]]
        for i in range(16)
    ]
    torch.testing.assert_close(values, torch.stack(expected))
    loss.after_step(data, model(data.inputs))
    assert not torch.equal(loss(model, data), values)  # another step
    again = Mixup(seed=3)
    later = Batch(data.inputs, data.labels, data.indices + 1)
    assert not torch.equal(again(model, later), values)  # another batch, though nobody tells the steps
    assert not torch.equal(Mixup(seed=4)(model, data), values)


def test_shares_of_mixup_are_betas() -> None:
    loss = Mixup(alpha=0.4)
    shares = []
    for _ in range(4000):
        shares.append(loss.generator(batch(2)).beta(loss.alpha, loss.alpha))
        loss.after_step(batch(2), torch.zeros(2, 3))
    variance = 0.25 / (2 * 0.4 + 1)
    assert np.mean(shares) == pytest.approx(0.5, abs=4 * (variance / 4000) ** 0.5)
    assert np.var(shares) == pytest.approx(variance, rel=0.05)


def test_mit_l_as_worked_out_elsewhere() -> None:
    golden = GOLDEN["mit_l"]
    one, two = (torch.tensor([golden[key]], dtype=torch.float64) for key in ("mixed_logits1", "mixed_logits2"))
    first, second = decoded(one, two, golden["l1"], golden["l2"])
    torch.testing.assert_close(first[0], torch.tensor(golden["decoded_a"]).double(), rtol=0, atol=1e-6)
    torch.testing.assert_close(second[0], torch.tensor(golden["decoded_b"]).double(), rtol=0, atol=1e-6)
    cross_entropy = CrossEntropy()
    labels = [torch.tensor([golden[key]]) for key in ("label_a", "label_b")]
    value = (cross_entropy(first, labels[0]) + cross_entropy(second, labels[1])) / 2
    assert value.item() == pytest.approx(golden["loss"], abs=1e-7)


def test_mit_l_of_a_linear_network_is_the_cross_entropy_of_both_samples() -> None:
    torch.manual_seed(0)
    model, data = nn.Linear(4, 3).double(), batch()
    plain = CrossEntropy()(model(data.inputs), data.labels)
    values = MITL(seed=1)(model, data)
    assert values.mean().item() == pytest.approx(plain.mean().item(), abs=1e-9)
    loss, differences = MITL(alpha=1.0, margin=0.7), []
    for seed in range(200):
        a, b = loss.shares(np.random.default_rng(seed))
        differences.append(a - b)
        assert 0 <= b <= 0.5 <= a <= 1
    assert min(differences) >= 0.7


def test_macs_as_worked_out_elsewhere() -> None:
    golden = GOLDEN["macs"]
    logits, labels = inputs("B")
    shifted = torch.tensor(golden["perturbed_logits"], dtype=torch.float64)
    assert MaCS().hinge(logits, labels).mean().item() == pytest.approx(golden["B_hinge_sq_Delta1_mean"], abs=1e-7)
    margins = Predictions(logits, labels).margin
    torch.testing.assert_close(margins, torch.tensor(golden["B_margins"]).double())
    torch.testing.assert_close(MaCS().hinge(logits, labels), (1 - margins).clamp(min=0).square())
    apart = MaCS().apart(logits, shifted).mean().item()
    assert apart == pytest.approx(golden["KL(clean||pert)_batchmean"], abs=1e-7)
    reverse = MaCS(divergence="from_shifted").apart(logits, shifted).mean().item()
    assert reverse == pytest.approx(golden["KL(pert||clean)_batchmean"], abs=1e-7)
    torch.testing.assert_close(MaCS().hinge(logits + 5, labels), MaCS().hinge(logits, labels))


def test_macs_is_its_three_parts() -> None:
    torch.manual_seed(0)
    model, data = nn.Linear(4, 3).double(), batch()
    loss = MaCS(pull=0.3, agree=2.0, noise=0.5, seed=1)
    logits, shifted = model(data.inputs), model(loss.shifted(data))
    wanted = (
        CrossEntropy()(logits, data.labels) + 0.3 * loss.hinge(logits, data.labels) + 2 * loss.apart(logits, shifted)
    )
    torch.testing.assert_close(loss(model, data), wanted)
    assert (loss.shifted(data) - data.inputs).std().item() == pytest.approx(0.5, rel=0.3)
    off = MaCS(pull=0.0, agree=0.0)
    torch.testing.assert_close(off(model, data), CrossEntropy()(logits, data.labels))
    point = logits.detach().requires_grad_()
    assert not loss.apart(point, shifted.detach()).requires_grad  # only the shifted view learns


def test_blur_keeps_the_mean_and_spreads_a_point_as_a_gaussian() -> None:
    images = torch.zeros(1, 2, 15, 15, dtype=torch.float64)
    images[0, 0, 7, 7] = 1
    found = blurred(images, 1.0)
    torch.testing.assert_close(found.sum(), torch.tensor(1.0).double())
    assert not found[0, 1].any()
    places = torch.arange(15).double() - 7
    assert (found[0, 0].sum(dim=0) * places.square()).sum().item() == pytest.approx(1.0, rel=0.03)
    torch.testing.assert_close(found[0, 0], found[0, 0].T)
    torch.testing.assert_close(blurred(torch.ones(1, 1, 4, 4), 2.0), torch.ones(1, 1, 4, 4))
    with pytest.raises(ValueError, match="`blur` must be 0 unless"):
        MaCS(blur=1.0)(nn.Linear(4, 3).double(), batch())


def test_ar_adals_as_worked_out_elsewhere() -> None:
    golden = GOLDEN["ar_adals_from_memory"]
    share = smoothing(torch.tensor(0.9, dtype=torch.float64), num_classes=10)
    assert share.item() == pytest.approx(golden["p=0.9,Z=10 -> eps=(1-p)*Z/(Z-1)"], abs=1e-7)
    loss = ARAdaLS(num_samples=4, num_groups=1, rate=0.005)
    loss.targets[:] = 0.95
    confident = torch.tensor([0.93, 0.07], dtype=torch.float64).log().expand(100, 2)
    loss.after_epoch(Predictions(confident, torch.tensor([0] * 90 + [1] * 10)))  # confidence .93, accuracy .90
    wanted = golden["update p - alpha*(conf-acc), p=.95, alpha=.005, conf=.93, acc=.90"]
    assert loss.targets.item() == pytest.approx(wanted, abs=1e-7)


def test_ar_adals_smooths_each_group_by_its_own_target() -> None:
    torch.manual_seed(0)
    model, data = nn.Linear(4, 3).double(), batch(6)
    loss = ARAdaLS(num_samples=6, num_groups=3, rate=0.5, lowest=0.4)
    torch.testing.assert_close(loss(model, data), CrossEntropy()(model(data.inputs), data.labels))  # before any pass
    gaps = torch.tensor([5.0, 1.0, 3.0, 2.0, 6.0, 4.0])
    loss.after_step(data, torch.stack([gaps, torch.zeros(6), -torch.ones(6)], dim=1))
    sure = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], dtype=torch.float64)
    said = torch.stack([sure, torch.zeros(6).double()], dim=1)
    loss.after_epoch(Predictions(said, torch.tensor([1, 1, 0, 1, 0, 0])))  # accuracy 0, 1/2, 1
    assert loss.groups.tolist() == [2, 0, 1, 0, 2, 1]
    confidence = sure.sigmoid().view(3, 2).mean(dim=1)
    wanted = (1 - 0.5 * (confidence - torch.tensor([0.0, 0.5, 1.0]).double())).clamp(0.4, 1.0)
    torch.testing.assert_close(loss.targets, wanted)
    logp = model(data.inputs).log_softmax(dim=1)
    for i, value in enumerate(loss(model, data)):
        target = loss.targets[loss.groups[i]]
        weights = torch.full((3,), float((1 - target) / 2)).double()
        weights[data.labels[i]] = target
        torch.testing.assert_close(value, -(weights * logp[i]).sum(), rtol=1e-6, atol=1e-6)
    with pytest.raises(ValueError, match="AR-AdaLS needs a validation split"):
        loss.after_epoch(None)


def test_corners_of_a_simplex() -> None:
    golden = GOLDEN["balcal"]
    for num_classes, key in ((10, "max_softmax_conf_of_ETF_head_K10 (unit feature on a column, Ew=1)"), (100, "K100")):
        corners = simplex(128, num_classes).double()
        products = corners.T @ corners
        off = products - torch.diag(products.diagonal())
        assert products.diagonal().mean().item() == pytest.approx(golden["ETF_column_norm"], abs=1e-6)
        cosine = golden["ETF_pairwise_cos"] if num_classes == 10 else -1 / 99
        assert off.sum().item() / (num_classes * (num_classes - 1)) == pytest.approx(cosine, abs=1e-6)
        assert (off[0, 1:] - cosine).abs().max() < 1e-5
        highest = (corners[:, 0] @ corners).softmax(dim=0).max().item()
        assert highest == pytest.approx(golden[key], abs=1e-6)


def test_balcals_class_weights_as_worked_out_elsewhere() -> None:
    wanted = torch.tensor(GOLDEN["balcal"]["Ew_example labels [0,0,1,3] K=4"], dtype=torch.float64)
    found = class_weights(torch.tensor([0, 0, 1, 3]), num_classes=4)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-7)


def test_balcal_weighs_both_heads_and_predicts_by_their_mixture() -> None:
    torch.manual_seed(0)
    model = BalCAL.wrapped(MLP(input_shape=(4,), num_classes=3, widths=(8,))).double()
    assert isinstance(model, TwoHeads)
    loss, data = BalCAL(model=model, num_samples=16), batch()
    learnt, fixed = model(data.inputs, apart=True)
    torch.testing.assert_close(model(data.inputs), 0.8 * learnt + 0.2 * fixed, rtol=1e-6, atol=1e-6)
    assert fixed.abs().max() <= 1 + 1e-6  # a unit vector on unit vectors
    cross_entropy = CrossEntropy()
    weighted = fixed * class_weights(data.labels, num_classes=3)
    wanted = 0.8 * cross_entropy(learnt, data.labels) + 0.2 * cross_entropy(weighted, data.labels)
    torch.testing.assert_close(loss(model, data), wanted, rtol=1e-6, atol=1e-6)


def test_balcals_share_makes_the_mixture_as_sure_as_it_is_right() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(4, (500,), generator=generator)
    truth = nn.functional.one_hot(labels, 4).double()
    learnt = 8 * (truth + 0.7 * torch.randn(500, 4, generator=generator, dtype=torch.float64))
    said = torch.stack([learnt, learnt / 40])
    share = balanced_share(said, labels, 0.95, now=0.8)
    assert 0 < share < 1
    confidence, guess = (share * said[0] + (1 - share) * said[1]).softmax(dim=1).max(dim=1)
    accuracy = (guess == labels).double().mean()
    assert confidence.mean().item() == pytest.approx(0.95 * accuracy.item(), abs=1e-3)
    assert balanced_share(said / 20, labels, 0.95, now=0.8) == 1.0  # too unsure already


@pytest.mark.parametrize("network", [MLP, CNN, ResNet])
def test_two_heads_on_every_network(network: Any) -> None:
    options = {"depth": 8} if network is ResNet else {}
    model = TwoHeads(network(input_shape=(3, 8, 8), num_classes=10, **options))
    assert model(torch.randn(2, 3, 8, 8)).shape == (2, 10)
    assert "corners" in model.state_dict()
    assert "share" in model.state_dict()
    assert not any(name.startswith("corners") for name, _ in model.named_parameters())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mixup(alpha=0.0), "`alpha` must be positive"),
        (lambda: Mixup(seed=-1), "`seed` must be at least 0"),
        (lambda: MITL(alpha=-1.0), "`alpha` must be positive"),
        (lambda: MITL(margin=0.0), "`margin` must lie between 0 and 1"),
        (lambda: MITL(alpha=1e6, margin=0.9), "`margin` must be one that shares"),
        (lambda: MaCS(noise=-1.0), "`noise` must be at least 0"),
        (lambda: MaCS(divergence="x"), "`divergence` must be"),  # type: ignore[arg-type]
        (lambda: ARAdaLS(num_samples=0), "`num_samples` must be at least 1"),
        (lambda: ARAdaLS(num_samples=1, num_groups=0), "`num_groups` must be at least 1"),
        (lambda: ARAdaLS(num_samples=1, rate=-1.0), "`rate` must be at least 0"),
        (lambda: ARAdaLS(num_samples=1, lowest=0.0), "`lowest` must lie"),
        (lambda: BalCAL(model=nn.Linear(1, 1), num_samples=1), "`model` must be a TwoHeads"),  # type: ignore[arg-type]
        (lambda: TwoHeads(nn.Linear(4, 3)), "must end in a linear layer after others"),
        (lambda: TwoHeads(nn.Sequential(nn.ReLU(), nn.Linear(2, 3))), "as many features as classes, got 2 for 3"),
        (lambda: TwoHeads(nn.Sequential(nn.ReLU(), nn.Linear(3, 3)), share=2.0), "`share` must lie"),
    ],
)
def test_options_out_of_range_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
