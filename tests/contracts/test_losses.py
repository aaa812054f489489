"""What every loss in the registry promises, in each of its forms."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from references.golden import inputs
from surefoot.curvature import GGN, Hessian
from surefoot.losses import LOSSES, Batch, Lifted, Loss, couples_samples
from surefoot.optim import CSAM, SAM

FORMS: dict[str, Callable[[], Loss]] = {
    **LOSSES,
    "acls, active": partial(LOSSES["acls"], margin=1.0, low=0.0),  # its other term is no function of its slope
    "acls, above the smallest": partial(LOSSES["acls"], margin=1.0, low=0.0, above="smallest"),
    "focal, gamma 0.5": partial(LOSSES["focal"], gamma=0.5),
    "flsd52": partial(LOSSES["flsd53"], gamma=2.0),
    "label smoothing over others": partial(LOSSES["label_smoothing"], smoothing=0.1, over="others"),
    "mbls, active": partial(LOSSES["mbls"], margin=1.0),
    "mdca with focal": partial(LOSSES["mdca"], base_loss="focal"),
    "mdca with label smoothing": partial(LOSSES["mdca"], base_loss="label_smoothing"),
    "mmce m": partial(LOSSES["mmce"], form="m"),
    "mmce w": partial(LOSSES["mmce"], form="w"),
    "mse, half sum": partial(LOSSES["mse"], classes="half_sum"),
    "soft-binned ece, label binned": partial(LOSSES["soft_binned_ece"], form="label_binned"),
}
ALL = pytest.mark.parametrize("name", FORMS)
SEE_A_SHIFT = {"acls", "acls, active", "mse", "mse, half sum"}  # of all logits by the same amount


@ALL
def test_one_value_per_sample_in_the_dtype_and_on_the_device_of_the_logits(name: str) -> None:
    loss = FORMS[name]()
    for dtype in (torch.float32, torch.float64):
        values = loss(torch.zeros(4, 3, dtype=dtype), torch.tensor([0, 1, 2, 0]))
        assert values.shape == (4,)
        assert values.dtype == dtype
    meta = loss(torch.zeros(4, 3, device="meta"), torch.zeros(4, dtype=torch.long, device="meta"))
    assert meta.device.type == "meta"
    with torch.device("meta"):  # whatever is made without naming a device cannot be mixed
        assert loss(*inputs("B")).isfinite().all()


@ALL
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_half_precision_is_widened(name: str, half: torch.dtype) -> None:
    logits, labels = inputs("B")
    rounded = logits.to(half)
    values = FORMS[name]()(rounded, labels)
    assert values.dtype == torch.float32
    torch.testing.assert_close(values, FORMS[name]()(rounded.float(), labels))


@ALL
def test_under_autocast_it_is_the_loss_of_the_logits_that_came_out(name: str) -> None:
    torch.manual_seed(0)
    model, loss = nn.Linear(4, 3), FORMS[name]()
    x, labels = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(x)
        values = loss(logits, labels)
    assert logits.dtype == torch.bfloat16
    torch.testing.assert_close(values, loss(logits.float(), labels))  # nothing inside was rounded
    values.mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@ALL
def test_samples_do_not_see_each_other_unless_it_says_so(name: str) -> None:
    logits, labels = inputs("B")
    loss = FORMS[name]()
    whole = loss(logits, labels)
    parts = torch.cat([loss(logits[k : k + 1], labels[k : k + 1]) for k in range(len(labels))])
    if couples_samples(loss):
        assert (whole - parts).abs().max() > 1e-3
        assert couples_samples(Lifted(loss))
    else:
        torch.testing.assert_close(whole, parts)


@ALL
def test_the_order_of_samples_does_not_matter(name: str) -> None:
    logits, labels = inputs("E")
    order = torch.tensor([3, 0, 4, 2, 1])
    torch.testing.assert_close(FORMS[name]()(logits[order], labels[order]), FORMS[name]()(logits, labels)[order])


@ALL
def test_twice_differentiable_in_the_logits(name: str) -> None:
    logits, labels = inputs("B")
    loss = FORMS[name]()
    point = logits.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda z: loss(z, labels), point)
    assert torch.autograd.gradgradcheck(lambda z: loss(z, labels), point)


@ALL
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [0.0, 30.0, 1e4])
def test_extreme_logits_give_finite_values_and_slopes(name: str, dtype: torch.dtype, size: float) -> None:
    signs = torch.tensor([[1, -1, -1], [-1, 1, 1], [-1, -1, -1], [1, 1, 1], [0, 1, -1], [1, 0, -1]], dtype=dtype)
    logits = (size * signs).requires_grad_()
    for labels in (torch.tensor([0, 0, 0, 2, 2, 0]), torch.tensor([1, 0, 1, 1, 1, 1]), torch.zeros(6).long()):
        values = FORMS[name]()(logits, labels)
        (slope,) = torch.autograd.grad(values.mean(), logits)
        assert values.isfinite().all()
        assert slope.isfinite().all()


@ALL
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_batch_that_is_sure_and_right_has_finite_slopes(name: str, dtype: torch.dtype) -> None:
    labels = torch.tensor([0, 1, 2, 1])
    logits = (1e4 * nn.functional.one_hot(labels, 3).to(dtype)).requires_grad_()  # confidence and accuracy are both 1
    (slope,) = torch.autograd.grad(FORMS[name]()(logits, labels).mean(), logits)
    assert slope.isfinite().all()


@ALL
def test_a_batch_of_one(name: str) -> None:
    logits, labels = inputs("A")
    point = logits.clone().requires_grad_()
    values = FORMS[name]()(point, labels)
    (slope,) = torch.autograd.grad(values.mean(), point)
    assert values.shape == (1,)
    assert values.isfinite().all()
    assert slope.isfinite().all()


@ALL
def test_a_shift_of_all_logits_is_seen_by_those_that_are_not_functions_of_probabilities(name: str) -> None:
    logits, labels = inputs("E")
    loss = FORMS[name]()
    moved = loss(logits + 20.0, labels)
    if name in SEE_A_SHIFT:
        assert (moved - loss(logits, labels)).abs().min() > 1e-3
    else:
        torch.testing.assert_close(moved, loss(logits, labels), rtol=1e-9, atol=1e-9)


@ALL
def test_lifted_to_an_objective_it_is_the_loss_of_the_models_logits(name: str) -> None:
    torch.manual_seed(0)
    model = nn.Linear(2, 3)
    batch = Batch(torch.randn(5, 2), torch.tensor([0, 1, 2, 0, 1]), torch.arange(5))
    loss = FORMS[name]()
    assert torch.equal(Lifted(loss)(model, batch), loss(model(batch.inputs), batch.labels))


@ALL
@pytest.mark.parametrize("matrix", [GGN, Hessian])
def test_curvature_is_right_or_refused(name: str, matrix: type[GGN] | type[Hessian]) -> None:
    torch.manual_seed(0)
    model = nn.Linear(2, 3, bias=False).double()
    x, labels = torch.randn(5, 2, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1])
    loss = FORMS[name]()
    if couples_samples(loss):
        with pytest.raises(ValueError, match="couples the samples of a batch, so"):
            matrix(model, loss, x, labels)
        return

    def mean(weight: Tensor) -> Tensor:
        return loss(x @ weight.view(3, 2).T, labels).mean()

    dense = torch.autograd.functional.hessian(mean, model.weight.detach().reshape(-1))  # of a linear model, both are
    found = matrix(model, loss, x, labels)
    torch.testing.assert_close(found.dense(), dense)
    torch.testing.assert_close(found @ torch.eye(6, dtype=torch.float64), dense)  # a block of vectors at once


@ALL
def test_the_sam_family_steps_on_it(name: str) -> None:
    x, labels = torch.randn(6, 2, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 0, 1, 2])
    ends = {}
    for kind in (SAM, CSAM):
        torch.manual_seed(0)
        model = nn.Linear(2, 3)
        optimizer = kind(model.parameters(), rho=0.05, lr=0.1, loss=FORMS[name]())
        before = model.weight.detach().clone()

        def closure(model: nn.Module = model, optimizer: SAM = optimizer) -> Tensor:
            loss = optimizer.loss(model(x), labels)
            loss.backward()
            return loss.detach()

        for _ in range(3):
            optimizer.step(closure)
        ends[kind] = model.weight.detach()
        assert ends[kind].isfinite().all()
        assert not torch.equal(ends[kind], before)
