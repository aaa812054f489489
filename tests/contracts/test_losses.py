"""What every loss in the registry promises."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from surefoot.losses import LOSSES, Batch, CrossEntropy, Lifted

GOLDEN = json.loads((Path(__file__).parents[1] / "references" / "golden_losses.json").read_text())
ALL = pytest.mark.parametrize("name", LOSSES)


def inputs(key: str) -> tuple[torch.Tensor, torch.Tensor]:
    case = GOLDEN["_meta"]["inputs"][key]
    logits = torch.tensor(case["logits"], dtype=torch.float64)
    labels = torch.tensor(case.get("labels", case.get("label")))
    return (logits, labels) if logits.ndim == 2 else (logits[None], labels[None])


@ALL
def test_one_value_per_sample_in_the_dtype_and_on_the_device_of_the_logits(name: str) -> None:
    loss = LOSSES[name]()
    for dtype in (torch.float32, torch.float64):
        values = loss(torch.zeros(4, 3, dtype=dtype), torch.tensor([0, 1, 2, 0]))
        assert values.shape == (4,)
        assert values.dtype == dtype
    meta = loss(torch.zeros(4, 3, device="meta"), torch.zeros(4, dtype=torch.long, device="meta"))
    assert meta.device.type == "meta"


@ALL
def test_samples_do_not_see_each_other(name: str) -> None:
    logits, labels = inputs("B")
    whole = LOSSES[name]()(logits, labels)
    parts = torch.cat([LOSSES[name]()(logits[k : k + 1], labels[k : k + 1]) for k in range(len(labels))])
    torch.testing.assert_close(whole, parts)


@ALL
def test_twice_differentiable_in_the_logits(name: str) -> None:
    logits, labels = inputs("B")
    loss = LOSSES[name]()
    point = logits.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda z: loss(z, labels), point)
    assert torch.autograd.gradgradcheck(lambda z: loss(z, labels), point)


@ALL
def test_lifted_to_an_objective_it_is_the_loss_of_the_models_logits(name: str) -> None:
    torch.manual_seed(0)
    model = nn.Linear(2, 3)
    batch = Batch(torch.randn(5, 2), torch.tensor([0, 1, 2, 0, 1]), torch.arange(5))
    loss = LOSSES[name]()
    assert torch.equal(Lifted(loss)(model, batch), loss(model(batch.inputs), batch.labels))


def test_golden_values_of_focal_loss_and_acls() -> None:
    golden = GOLDEN["focal"]
    for gamma in (1, 2, 3):
        assert LOSSES["focal"](gamma=gamma)(*inputs("A")).item() == pytest.approx(golden[f"A_gamma{gamma}"], abs=1e-8)
    assert LOSSES["focal"]()(*inputs("B")).mean().item() == pytest.approx(golden["B_mean_gamma3"], abs=1e-8)
    torch.testing.assert_close(LOSSES["focal"](gamma=0.0)(*inputs("B")), CrossEntropy()(*inputs("B")))
    golden = GOLDEN["acls_code_form"]
    assert LOSSES["acls"]()(*inputs("C")).mean().item() == pytest.approx(golden["C_total_alpha0.1"], abs=1e-8)
    found = LOSSES["acls"](margin=1.0)(*inputs("B")).mean().item()
    assert found == pytest.approx(golden["B_margin1_total_alpha0.1"], abs=1e-8)
    logits, labels = inputs("C")
    point = logits.clone().requires_grad_()
    regulariser = (LOSSES["acls"](strength=1.0)(point, labels) - CrossEntropy()(point, labels)).mean()
    (slope,) = torch.autograd.grad(regulariser, point)
    wanted = golden["grad_of_reg_C_margin10 (max detached in the neg term)"]
    torch.testing.assert_close(slope, torch.tensor(wanted, dtype=torch.float64), rtol=0, atol=1e-8)


def test_focal_loss_has_finite_slopes_where_it_is_sure() -> None:
    logits = torch.tensor([[200.0, 0.0], [0.0, 200.0]], requires_grad=True)
    for gamma in (0.0, 0.5, 1.0, 3.0):
        (slope,) = torch.autograd.grad(LOSSES["focal"](gamma=gamma)(logits, torch.tensor([0, 0])).sum(), logits)
        assert slope.isfinite().all()
    with pytest.raises(ValueError, match="`gamma` must be at least 0"):
        LOSSES["focal"](gamma=-1.0)


def test_golden_values() -> None:
    golden = GOLDEN["cross_entropy"]
    cross_entropy = CrossEntropy()
    torch.testing.assert_close(
        cross_entropy(*inputs("B")), torch.tensor(golden["B_per_sample"], dtype=torch.float64), rtol=0, atol=1e-8
    )
    assert cross_entropy(*inputs("C")).mean().item() == pytest.approx(golden["C_mean"], abs=1e-8)
    logits, labels = inputs("A")
    point = logits.clone().requires_grad_()
    (slope,) = torch.autograd.grad(cross_entropy(point, labels).sum(), point)
    torch.testing.assert_close(slope[0], torch.tensor(golden["grad_A"], dtype=torch.float64), rtol=0, atol=1e-8)
    mse = LOSSES["mse"]()
    assert mse(*inputs("A")).item() == pytest.approx(GOLDEN["mse_on_raw_logits"]["A"])
    assert mse(*inputs("B")).mean().item() == pytest.approx(GOLDEN["mse_on_raw_logits"]["B_mean"])
