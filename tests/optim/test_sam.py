"""SAM and its family: golden steps, passes, and the loops that people have."""

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.optim import LBFGS, SGD, AdamW

from references.golden import GOLDEN
from references.processes import in_two_processes
from surefoot.losses import ACLS, CrossEntropy, Focal
from surefoot.models import CNN
from surefoot.optim import ASAM, BSAM, CSAM, SAM, SSAM, VASSO
from surefoot.optim.sam import total_norm

STEPS = GOLDEN["optimizer_steps_quadratic"]
FAMILY: list[type[SAM]] = [SAM, ASAM, VASSO, SSAM, CSAM]
ALL = pytest.mark.parametrize("kind", FAMILY)


def after(optimizer: Any, w: nn.Parameter, steps: int = 1) -> list[float]:
    def closure() -> Tensor:
        loss = 0.5 * (w[0] ** 2 + 10 * w[1] ** 2)
        loss.backward()
        return loss.detach()

    for _ in range(steps):
        optimizer.step(closure)
    return w.tolist()


def weights(*values: float) -> nn.Parameter:
    return nn.Parameter(torch.tensor(values, dtype=torch.float64))


@pytest.mark.parametrize(
    ("key", "make", "steps"),
    [
        ("sam", lambda w: SAM([w], SGD, rho=0.05, lr=0.1), 1),
        ("ssam_renormalised_sam", lambda w: SSAM([w], SGD, rho=0.05, lr=0.1), 1),
        ("asam_samsung", lambda w: ASAM([("weight", w)], SGD, rho=0.5, eta=0.01, lr=0.1), 1),
        ("asam_davda54_(no eta)", lambda w: ASAM([w], SGD, rho=0.5, eta=0, everywhere=True, lr=0.1), 1),
        ("vasso_theta0.9_two_steps", lambda w: VASSO([w], SGD, rho=0.05, theta=0.9, lr=0.1), 2),
    ],
)
def test_golden_steps(key: str, make: Callable[[nn.Parameter], SAM], steps: int) -> None:
    w = weights(*STEPS[key].get("w0", [1, 1]))
    assert after(make(w), w, steps) == pytest.approx(STEPS[key][f"w{steps}"], abs=1e-7)


def test_golden_step_of_bsam_without_noise() -> None:
    golden = STEPS["bsam_one_step_noise0"]
    w = weights(1, 1)
    optimizer = BSAM(
        [w],
        lr=golden["lr"],
        num_samples=golden["N"],
        rho=golden["rho"],
        prior_precision=golden["wd"] * golden["N"],
        damping=golden["damping"],
    )
    optimizer.num_samples = 10**18  # no noise; the prior's share was taken above
    assert after(optimizer, w) == pytest.approx(golden["w1"], abs=1e-6)
    assert optimizer.state[w]["precision"].tolist() == pytest.approx(golden["s1"], abs=1e-6)
    assert optimizer.state[w]["momentum"].tolist() == pytest.approx(golden["m1"], abs=1e-6)


def test_bsam_samples_with_its_own_precision_and_comes_home() -> None:
    w = nn.Parameter(torch.zeros(40_000, dtype=torch.float64))
    optimizer = BSAM([w], num_samples=100, first_precision=4.0)
    with optimizer.sampled():
        assert float(w.detach().std()) == pytest.approx(1 / 20, rel=0.02)
    assert not bool(w.any())


def test_bsam_averages_sub_batches() -> None:
    halves = torch.tensor([[1.0, 0.0], [0.0, 3.0]], dtype=torch.float64)
    w = weights(1, 1)
    optimizer = BSAM([w], lr=0.1, num_samples=1, prior_precision=0.0, rho=0.0)
    optimizer.num_samples = 10**18

    def of(half: Tensor) -> Callable[[], Tensor]:
        def closure() -> Tensor:
            loss = (half * w).sum()
            loss.backward()
            return loss.detach()

        return closure

    assert optimizer.step([of(half) for half in halves]) == pytest.approx(2.0)
    assert optimizer.state[w]["momentum"].tolist() == pytest.approx([0.05, 0.15])
    assert optimizer.state[w]["precision"].tolist() == pytest.approx([0.999 + 0.001 * 0.6, 0.999 + 0.001 * 1.6])


def case(name: str) -> tuple[Tensor, Tensor]:
    found = GOLDEN["_meta"]["inputs"][name]
    logits = torch.tensor(found["logits"], dtype=torch.float64)
    labels = torch.tensor(found.get("labels", found.get("label")))
    return (logits, labels) if logits.ndim == 2 else (logits[None], labels[None])


def uphill(csam: CSAM, name: str) -> tuple[Tensor, Tensor]:
    """Per-sample losses and the slope of their sum, in the second pass."""
    logits, labels = case(name)
    point = logits.clone().requires_grad_()
    for p in csam.param_groups[0]["params"]:
        p.grad = torch.ones_like(p)
    csam.perturb()
    values = csam.per_sample(point, labels)
    csam.restore()
    (slope,) = torch.autograd.grad(values.sum(), point)
    return values.detach(), slope


def test_csam_has_equation_4_uphill_with_the_weight_differentiated() -> None:
    golden = GOLDEN["csam_eq4"]
    for gamma in (0.5, 1.0, 2.0):
        values, _ = uphill(CSAM([weights(1)], SGD, gamma=gamma, lr=0.1), "B")
        torch.testing.assert_close(
            values, torch.tensor(golden[f"B_per_sample_gamma{gamma}"]).double(), atol=1e-7, rtol=0
        )
    for gamma, key in ((1.0, "grad_A_gamma1.0 (weight differentiated, as Eq.4 is written)"), (2.0, "grad_A_gamma2.0")):
        _, slope = uphill(CSAM([weights(1)], SGD, gamma=gamma, lr=0.1), "A")
        torch.testing.assert_close(slope[0], torch.tensor(golden[key]).double(), atol=1e-7, rtol=0)


def test_csam_weights_focal_loss_whole_and_of_acls_the_cross_entropy() -> None:
    values, _ = uphill(CSAM([weights(1)], SGD, gamma=1.0, loss=Focal(3.0), lr=0.1), "B")
    assert float(values.mean()) == pytest.approx(GOLDEN["fl_csam_convention w(p)*FL"]["B_mean_fl3_csam1"], abs=1e-7)
    golden = GOLDEN["acls_csam_convention mean(w*CE)+alpha*reg"]
    for name, margin, key in (("B", 1.0, "B_margin1_gamma1"), ("C", 10.0, "C_margin10_gamma1")):
        values, _ = uphill(CSAM([weights(1)], SGD, gamma=1.0, loss=ACLS(margin=margin), lr=0.1), name)
        assert float(values.mean()) == pytest.approx(golden[key], abs=1e-7)


class Loop:
    """A small network and its batches."""

    def __init__(self, model: nn.Module | None = None) -> None:
        torch.manual_seed(0)
        self.inputs, self.labels = torch.randn(16, 4), torch.arange(16) % 3
        self.model = model or nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))

    def closure(self, optimizer: Any, before_step: Callable[[], Any] = lambda: None) -> Callable[[], Tensor]:
        def closure() -> Tensor:
            logits, labels = self.model(self.inputs), self.labels
            loss = optimizer.loss(logits, labels) if isinstance(optimizer, SAM) else F.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            before_step()
            return loss.detach()

        return closure

    @property
    def weights(self) -> Tensor:
        return nn.utils.parameters_to_vector(self.model.parameters()).detach().clone()


@ALL
@pytest.mark.parametrize(("base", "options"), [(SGD, {"lr": 0.1, "momentum": 0.9}), (AdamW, {"lr": 0.01})])
def test_without_radius_it_is_the_base(kind: Any, base: Any, options: dict[str, Any]) -> None:
    ours, theirs = Loop(), Loop()
    optimizer = kind(ours.model.parameters(), base, rho=0.0, **({"gamma": 0.0} if kind is CSAM else {}), **options)
    plain = base(theirs.model.parameters(), **options)
    for _ in range(5):
        optimizer.step(ours.closure(optimizer))
        plain.step(theirs.closure(plain))
    if kind is SSAM:  # its ratio of norms rounds
        torch.testing.assert_close(ours.weights, theirs.weights)
    else:
        assert torch.equal(ours.weights, theirs.weights)


def test_csam_with_gamma_0_and_vasso_with_theta_1_are_sam() -> None:
    found = []
    for kind, options in (
        (SAM, {}),
        (CSAM, {"gamma": 0.0}),
        (CSAM, {"gamma": 1.0, "onset": 5}),
        (VASSO, {"theta": 1.0}),
    ):
        loop = Loop()
        optimizer = kind(loop.model.parameters(), SGD, rho=0.1, lr=0.1, momentum=0.9, **options)
        for _ in range(5):
            optimizer.step(loop.closure(optimizer))
        found.append(loop.weights)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
    torch.testing.assert_close(found[0], found[3], atol=1e-5, rtol=1e-4)  # other tiny numbers beside the norm
    loop = Loop()
    optimizer = CSAM(loop.model.parameters(), SGD, rho=0.1, lr=0.1, momentum=0.9, gamma=1.0)
    loop.labels = loop.model(loop.inputs).argmax(dim=1)
    for p in loop.model.parameters():
        p.data *= 3  # sure and right: the weight matters
    for _ in range(5):
        optimizer.step(loop.closure(optimizer))
    assert not torch.equal(loop.weights, found[0])


def test_the_stable_one_keeps_the_gradients_length() -> None:
    loop = Loop()
    optimizer = SSAM(loop.model.parameters(), SGD, rho=0.5, lr=0.1)
    clean = nn.utils.parameters_to_vector(
        torch.autograd.grad(F.cross_entropy(loop.model(loop.inputs), loop.labels), list(loop.model.parameters()))
    ).norm()
    before = loop.weights
    optimizer.step(loop.closure(optimizer))
    assert float((loop.weights - before).norm()) == pytest.approx(0.1 * float(clean), rel=1e-4)


@ALL
def test_perturb_and_restore_are_the_closure_in_two_halves(kind: Any) -> None:
    whole, halves = Loop(), Loop()
    first = kind(whole.model.parameters(), SGD, lr=0.1, momentum=0.9)
    second = kind(halves.model.parameters(), SGD, lr=0.1, momentum=0.9)
    for _ in range(4):
        first.step(whole.closure(first))
        second.zero_grad()
        second.loss(halves.model(halves.inputs), halves.labels).backward()
        second.perturb()
        second.zero_grad()
        second.loss(halves.model(halves.inputs), halves.labels).backward()
        second.restore()
        second.step()
    assert torch.equal(whole.weights, halves.weights)
    with pytest.raises(ValueError, match="needs a `closure`"):
        second.step()
    second.perturb()
    with pytest.raises(ValueError, match="displaced already"):
        second.perturb()
    with pytest.raises(ValueError, match="needs a `closure`"):
        second.step()
    second.restore()


def test_groups_have_their_own_radius_and_share_the_norm() -> None:
    a, b = weights(1), weights(1)
    optimizer = SAM([{"params": [a], "rho": 0.3}, {"params": [b]}], SGD, rho=0.1, lr=0.1)
    a.grad, b.grad = torch.tensor([3.0]).double(), torch.tensor([4.0]).double()
    optimizer.perturb()
    assert [a.item(), b.item()] == pytest.approx([1 + 0.3 * 0.6, 1 + 0.1 * 0.8])
    optimizer.restore()
    assert [a.item(), b.item()] == [1.0, 1.0]
    optimizer.add_param_group({"params": [weights(1)], "lr": 0.5})
    assert optimizer.base.param_groups[-1]["rho"] == 0.1
    assert optimizer.param_groups is optimizer.base.param_groups


@ALL
def test_clipping_and_accumulation_inside_the_closure(kind: Any) -> None:
    clipped, whole, parts = Loop(), Loop(), Loop()
    optimizer = kind(clipped.model.parameters(), SGD, rho=0.05, lr=1.0)
    before = clipped.weights
    optimizer.step(clipped.closure(optimizer, lambda: nn.utils.clip_grad_norm_(clipped.model.parameters(), 1e-3)))
    assert float((clipped.weights - before).norm()) == pytest.approx(1e-3, rel=1e-3)
    one = kind(whole.model.parameters(), SGD, lr=0.1)
    several = kind(parts.model.parameters(), SGD, lr=0.1)

    def accumulated() -> Tensor:
        total = torch.zeros(())
        for k in range(4):
            part = several.loss(parts.model(parts.inputs[4 * k : 4 * k + 4]), parts.labels[4 * k : 4 * k + 4]) / 4
            part.backward()
            total += part.detach()
        return total

    for _ in range(3):
        assert float(one.step(whole.closure(one))) == pytest.approx(float(several.step(accumulated)), rel=1e-5)
    torch.testing.assert_close(whole.weights, parts.weights)


def images() -> Loop:
    loop = Loop()
    loop.inputs = torch.randn(16, 1, 8, 8)
    torch.manual_seed(1)
    loop.model = CNN(input_shape=(1, 8, 8), num_classes=3, widths=(4, 8))
    return loop


@ALL
def test_batch_norm_remembers_the_clean_pass_alone(kind: Any) -> None:
    loop, clean = images(), images()
    optimizer = kind(loop.model.named_parameters(), SGD, lr=0.1)
    clean.model(clean.inputs)
    optimizer.step(loop.closure(optimizer))
    for (name, ours), theirs in zip(loop.model.named_buffers(), clean.model.buffers(), strict=True):
        assert torch.equal(ours, theirs), name
    halves = images()
    optimizer = kind(halves.model.named_parameters(), SGD, lr=0.1)
    for half in ("climb", "look"):
        optimizer.zero_grad()
        optimizer.loss(halves.model(halves.inputs), halves.labels).backward()
        if half == "climb":
            optimizer.perturb()
    optimizer.restore()
    optimizer.step()
    assert all(map(torch.equal, halves.model.buffers(), clean.model.buffers()))
    both = images()
    careless = kind(both.model.named_parameters(), SGD, lr=0.1, clean_statistics=False)
    careless.step(both.closure(careless))
    assert int(both.model.get_buffer("features.1.num_batches_tracked")) == 2


def test_batch_norm_is_clean_after_a_failure_too() -> None:
    loop, clean = images(), images()
    optimizer = SAM(loop.model.parameters(), SGD, lr=0.1)
    calls = 0

    def failing() -> Tensor:
        nonlocal calls
        calls += 1
        loss = loop.closure(optimizer)()
        if calls == 2:
            raise RuntimeError("no luck")
        return loss

    with pytest.raises(RuntimeError, match="no luck"):
        optimizer.step(failing)
    clean.model(clean.inputs)
    assert all(map(torch.equal, loop.model.buffers(), clean.model.buffers()))
    assert torch.equal(loop.weights, clean.weights)


def test_a_parameter_without_gradient_in_the_second_pass_comes_home() -> None:
    a, b = weights(1), weights(1)
    optimizer = SAM([a, b], SGD, lr=0.1)
    calls = 0

    def closure() -> Tensor:
        nonlocal calls
        calls += 1
        loss = (a.square() + b.square() if calls == 1 else a.square()).sum()
        loss.backward()
        return loss.detach()

    optimizer.step(closure)
    assert b.item() == 1.0
    assert a.item() < 1.0


@ALL
def test_autocast_and_scaler(kind: Any) -> None:
    plain, scaled = Loop(), Loop()
    first = kind(plain.model.parameters(), SGD, lr=0.1, momentum=0.9)
    second = kind(scaled.model.parameters(), SGD, lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)

    def mixed(loop: Loop, optimizer: Any) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = loop.model(loop.inputs)
        loss: Tensor = optimizer.loss(logits.float(), loop.labels)
        return loss

    def one_pass() -> Tensor:
        loss = mixed(plain, first)
        loss.backward()
        return loss.detach()

    for _ in range(5):
        first.step(one_pass)
        second.zero_grad()
        scaler.scale(mixed(scaled, second)).backward()
        second.perturb(grad_scale=scaler.get_scale())
        second.zero_grad()
        scaler.scale(mixed(scaled, second)).backward()
        second.restore()
        scaler.step(second)
        scaler.update()
    assert scaler.get_scale() > 1024
    torch.testing.assert_close(plain.weights, scaled.weights, atol=2e-3, rtol=2e-2)
    before = scaled.weights
    second.zero_grad()
    (scaler.scale(mixed(scaled, second)) * float("inf")).backward()  # an overflow: no step, weights at home
    second.perturb(grad_scale=scaler.get_scale())
    second.zero_grad()
    scaler.scale(mixed(scaled, second)).backward()
    second.restore()
    scaler.step(second)
    scaler.update()
    assert torch.equal(scaled.weights, before)
    for half in ("climb", "look"):  # and the next step goes on
        second.zero_grad()
        scaler.scale(mixed(scaled, second)).backward()
        if half == "climb":
            second.perturb(grad_scale=scaler.get_scale())
    second.restore()
    scaler.step(second)
    scaler.update()
    assert scaled.weights.isfinite().all()
    assert not torch.equal(scaled.weights, before)


def test_half_precision_weights() -> None:
    loop = Loop()
    loop.model.to(torch.bfloat16)
    loop.inputs = loop.inputs.to(torch.bfloat16)
    optimizer = SAM(loop.model.parameters(), SGD, lr=0.1)
    first = float(optimizer.step(loop.closure(optimizer)))
    for _ in range(20):
        last = float(optimizer.step(loop.closure(optimizer)))
    assert last < first


def test_the_rules_for_gamma() -> None:
    loop = Loop()
    optimizer = CSAM(loop.model.parameters(), SGD, lr=0.1, gamma=2.0, onset=2)
    seen = []
    for _ in range(4):
        seen.append(optimizer.gamma_now)
        optimizer.step(loop.closure(optimizer))
    assert seen == [0, 0, 2, 2]
    optimizer = CSAM(loop.model.parameters(), SGD, lr=0.1, gamma=2.0, full_gap=0.1)
    assert optimizer.gamma_now == 0
    optimizer.step(loop.closure(optimizer))
    with torch.no_grad():
        confidence, guess = loop.model(loop.inputs).softmax(dim=1).max(dim=1)
    assert optimizer.gap == pytest.approx(float((confidence - (guess == loop.labels).float()).mean()), abs=0.05)
    optimizer.tell_gap(0.05)
    assert optimizer.gamma_now == 1.0
    optimizer.step(loop.closure(optimizer))
    assert optimizer.gap == 0.05
    again = CSAM(loop.model.parameters(), SGD, lr=0.1, gamma=2.0, full_gap=0.1)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert again.gamma_now == 1.0
    assert again.report() == {"optimizer/gamma": 1.0}


def test_csam_refuses_a_closure_that_goes_its_own_way_and_labels_it_cannot_use() -> None:
    loop = Loop()
    optimizer = CSAM(loop.model.parameters(), SGD, lr=0.1)
    before = loop.weights

    def closure() -> Tensor:
        loss = F.cross_entropy(loop.model(loop.inputs), loop.labels)
        loss.backward()
        return loss.detach()

    with pytest.raises(ValueError, match=r"`optimizer\.loss\(logits, labels\)`"):
        optimizer.step(closure)
    assert torch.equal(loop.weights, before)
    with pytest.raises(ValueError, match="CSAM needs class labels"):
        optimizer.loss(torch.zeros(2, 3), torch.zeros(2, 3))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda w: SAM([w], "sgd", lr=0.1), "`base` must be an optimizer class"),
        (lambda w: SAM([w], SGD([w], lr=0.1)), "`base` must be an optimizer class"),
        (lambda w: SAM([w], LBFGS), "LBFGS asks for several"),
        (lambda w: SAM([w], SAM, lr=0.1), "SAM asks for several"),
        (lambda w: SAM([w], SGD, rho=-0.1, lr=0.1), "`rho` must be at least 0 and finite, got -0.1"),
        (
            lambda w: SAM([{"params": [w], "rho": float("nan")}], SGD, lr=0.1),
            "`rho` must be at least 0 and finite, got nan",
        ),
        (lambda w: SAM([w], SGD, lr=0.1, maximize=True), "`maximize` must be off"),
        (lambda w: CSAM([w], SGD, gamma=2.5, lr=0.1), r"`gamma` must lie in \[0, 2\], got 2.5 \(`beyond_two=True`"),
        (lambda w: CSAM([w], SGD, gamma=3.5, beyond_two=True, lr=0.1), r"`gamma` must lie in \[0, 3\]"),
        (lambda w: CSAM([w], SGD, gamma=-1, lr=0.1), "`gamma` must lie"),
        (lambda w: CSAM([w], SGD, onset=-1, lr=0.1), "`onset` must be at least 0"),
        (lambda w: CSAM([w], SGD, full_gap=0, lr=0.1), "`full_gap` must be positive"),
        (lambda w: VASSO([w], SGD, theta=0, lr=0.1), "`theta` must lie above 0"),
        (lambda w: ASAM([w], SGD, eta=-1, lr=0.1), "`eta` must be at least 0"),
        (lambda w: BSAM([w], num_samples=0), "`num_samples` must be positive"),
        (lambda w: BSAM([w], num_samples=9, betas=(0.9, 1.0)), "`betas` must lie in"),
    ],
)
def test_bad_arguments_are_refused(build: Callable[[nn.Parameter], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(weights(1))
    assert CSAM([weights(1)], SGD, gamma=3, beyond_two=True, lr=0.1).gamma == 3


def test_a_checkpoint_of_the_base_alone_can_be_gone_on_from() -> None:
    loop = Loop()
    plain = SGD(loop.model.parameters(), lr=0.1, momentum=0.9)
    plain.step(loop.closure(plain))
    optimizer = VASSO(loop.model.parameters(), SGD, rho=0.2, lr=0.3, momentum=0.9)
    optimizer.load_state_dict(copy.deepcopy(plain.state_dict()))
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert optimizer.param_groups[0]["rho"] == 0.2
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    optimizer.step(loop.closure(optimizer))
    scheduler.step()
    assert optimizer.base.param_groups[0]["lr"] == 0.05


def _in_parallel(rank: int, folder: Path) -> None:
    for sync in (True, False):
        torch.save(_stepped(rank, sync=sync), folder / f"{sync}.{rank}.pt")


def _stepped(rank: int, *, sync: bool) -> Tensor:
    loop = Loop()
    model = DistributedDataParallel(loop.model)
    optimizer = SAM(model.parameters(), SGD, rho=0.5, lr=0.1, sync_perturbation=sync)
    mine = slice(8 * rank, 8 * rank + 8)

    def closure() -> Tensor:
        loss = optimizer.loss(model(loop.inputs[mine]), loop.labels[mine])
        loss.backward()
        return loss.detach()

    for _ in range(3):
        optimizer.step(closure)
    return loop.weights


@pytest.mark.slow
def test_two_processes_climb_together_or_each_its_own_hill(tmp_path: Path) -> None:
    in_two_processes(_in_parallel, tmp_path)
    found = {(sync, rank): torch.load(tmp_path / f"{sync}.{rank}.pt") for sync in (True, False) for rank in (0, 1)}
    together = Loop()
    optimizer = SAM(together.model.parameters(), SGD, rho=0.5, lr=0.1)
    for _ in range(3):
        optimizer.step(together.closure(optimizer))
    alone = Loop()
    plain = SGD(alone.model.parameters(), lr=0.1)
    for _ in range(3):
        gradients = []
        for rank in (0, 1):
            mine = slice(8 * rank, 8 * rank + 8)
            climber = SAM(alone.model.parameters(), SGD, rho=0.5, lr=0.1)
            for half in ("climb", "look"):
                climber.zero_grad()
                F.cross_entropy(alone.model(alone.inputs[mine]), alone.labels[mine]).backward()
                if half == "climb":
                    climber.perturb()
            climber.restore()
            gradients.append([p.grad.clone() for p in alone.model.parameters() if p.grad is not None])
        for p, *both in zip(alone.model.parameters(), *gradients, strict=True):
            p.grad = torch.stack(both).mean(dim=0)
        plain.step()
    for rank in (0, 1):
        torch.testing.assert_close(found[True, rank], together.weights, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(found[False, rank], alone.weights, atol=1e-6, rtol=1e-5)
    assert float((found[True, 0] - found[False, 0]).abs().max()) > 1e-4


def test_the_default_loss_is_cross_entropy() -> None:
    logits, labels = case("B")
    optimizer = SAM([weights(1)], SGD, lr=0.1)
    torch.testing.assert_close(optimizer.loss(logits, labels), CrossEntropy()(logits, labels).mean())


def test_autocast_around_the_step_still_sees_the_perturbed_weights() -> None:
    loop = Loop()
    optimizer = SAM(loop.model.parameters(), SGD, rho=2.0, lr=0.1)
    losses = []

    def closure() -> Tensor:
        loss = optimizer.loss(loop.model(loop.inputs).float(), loop.labels)
        loss.backward()
        losses.append(loss.item())
        return loss.detach()

    with torch.autocast("cpu", dtype=torch.bfloat16):
        optimizer.step(closure)
        optimizer.step(closure)
    assert losses[1] > losses[0] + 0.1
    assert losses[2] < losses[1] - 0.1


@pytest.mark.filterwarnings("ignore:Using `torch.compile")  # of hooks that fire for the outer module: that is the plan
def test_batch_norm_is_clean_in_a_compiled_model() -> None:
    loop = images()
    compiled = torch.compile(loop.model, backend="eager")
    optimizer = SAM(loop.model.parameters(), SGD, lr=0.1)

    def closure() -> Tensor:
        loss = optimizer.loss(compiled(loop.inputs), loop.labels)
        loss.backward()
        return loss.detach()

    optimizer.step(closure)
    assert int(loop.model.get_buffer("features.1.num_batches_tracked")) == 1


def test_other_models_are_left_alone_while_the_weights_are_away() -> None:
    loop, other = images(), images()
    optimizer = SAM(loop.model.parameters(), SGD, lr=0.1)
    loop.closure(optimizer)()
    optimizer.perturb()
    other.model(other.inputs)
    optimizer.restore()
    assert int(other.model.get_buffer("features.1.num_batches_tracked")) == 1


def test_the_stable_one_leaves_clipping_the_last_word() -> None:
    loop = Loop()
    optimizer = SSAM(loop.model.parameters(), SGD, rho=0.5, lr=1.0)
    before = loop.weights
    loop.closure(optimizer)()
    optimizer.perturb(grad_scale=1.0)
    loop.closure(optimizer)()
    optimizer.restore()
    nn.utils.clip_grad_norm_(loop.model.parameters(), 1e-3)
    optimizer.step()
    assert float((loop.weights - before).norm()) == pytest.approx(1e-3, rel=1e-3)


def test_losses_must_come_per_sample() -> None:
    optimizer = CSAM([weights(1)], SGD, loss=nn.CrossEntropyLoss(), lr=0.1)
    with pytest.raises(ValueError, match="`loss` must give one value per sample"):
        optimizer.loss(torch.zeros(4, 3), torch.tensor([0, 1, 2, 0]))


def test_weights_of_another_precision_come_home_to_the_bit() -> None:
    loop = Loop()
    optimizer = SAM(loop.model.parameters(), SGD, rho=0.5, lr=0.0)
    optimizer.step(loop.closure(optimizer))
    loop.model.double()
    loop.inputs = loop.inputs.double()
    with torch.no_grad():
        for p in loop.model.parameters():
            p.add_(1e-10)
    before = loop.weights
    optimizer.step(loop.closure(optimizer))
    assert torch.equal(loop.weights, before)


def test_norms_of_mixed_precisions() -> None:
    parts = [torch.full((100,), 0.1, dtype=dtype) for dtype in (torch.bfloat16, torch.float64, torch.float32)]
    exact = math.sqrt(sum(float(part.double().square().sum()) for part in parts))
    assert total_norm([parts]) == pytest.approx(exact, rel=1e-6)
    assert total_norm([parts[2:], parts[:2]]) == pytest.approx(exact, rel=1e-6)


def test_a_failed_step_does_not_open_the_way_to_a_bare_one() -> None:
    loop = Loop()
    optimizer = SAM(loop.model.parameters(), SGD, lr=0.1)
    calls = 0

    def failing() -> Tensor:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise RuntimeError("no luck")
        return loop.closure(optimizer)()

    with pytest.raises(RuntimeError, match="no luck"):
        optimizer.step(failing)
    with pytest.raises(ValueError, match="needs a `closure`"):
        optimizer.step()


def test_the_threshold_and_the_memory_of_csam() -> None:
    optimizer = CSAM([weights(1)], SGD, gamma=1.0, full_gap=1.0, lr=0.1)
    optimizer.tell_gap(1.0)
    optimizer.param_groups[0]["params"][0].grad = torch.ones(1, dtype=torch.float64)
    optimizer.perturb()
    logits = torch.tensor([[0.48, 0.52], [0.52, 0.48]], dtype=torch.float64).log()
    found = optimizer.per_sample(logits, torch.tensor([0, 0]))
    optimizer.restore()
    assert found.tolist() == pytest.approx([-math.log(0.48), -math.log(0.52) / 1.52])
    running = CSAM([weights(1)], SGD, gamma=1.0, full_gap=0.01, lr=0.1)
    sure = torch.tensor([[9.0, -9.0]])
    running.per_sample(sure, torch.tensor([1]))  # sure and wrong
    running.per_sample(sure, torch.tensor([0]))  # sure and right
    assert running.gap == pytest.approx(0.99, abs=1e-4)
    assert running.gamma_now == 1.0
    with torch.no_grad():
        running.per_sample(sure, torch.tensor([0]))
    assert running.gap == pytest.approx(0.99, abs=1e-4)
    with pytest.raises(ValueError, match="`gap` must lie"):
        running.tell_gap(float("nan"))


def test_bsam_by_hand_where_precisions_differ_from_1() -> None:
    w = weights(1, -2)
    optimizer = BSAM([w], lr=0.1, num_samples=50, rho=0.2, prior_precision=5.0, damping=0.3, first_precision=4.0)
    optimizer.num_samples = 10**18  # no noise
    curved, mean, m, s = torch.tensor([1.0, 10.0]).double(), torch.tensor([1.0, -2.0]).double(), 0.0, 4.0
    for _ in range(3):
        g = curved * mean
        uphill = curved * (mean + 0.2 * g / s)
        m = 0.9 * m + 0.1 * (uphill + 0.1 * mean)
        mean, s = mean - 0.1 * m / s, 0.999 * s + 0.001 * (s**0.5 * g.abs() + 0.3 + 0.1)
    assert after(optimizer, w, 3) == pytest.approx(mean.tolist(), rel=1e-7)
    assert optimizer.state[w]["precision"].tolist() == pytest.approx(s.tolist(), rel=1e-9)
