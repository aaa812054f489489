import itertools

import pytest
import torch
from torch import nn

from references.dense import dense_ggn, dense_hessian
from surefoot.curvature import GGN, Hessian, batch_sharpness, step_sharpness
from surefoot.losses import CrossEntropy
from surefoot.models import MLP


def case() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    model = MLP(input_shape=(4,), num_classes=3, widths=(5,)).double()
    return model, torch.randn(6, 4, dtype=torch.float64), torch.randint(0, 3, (6,))


def ratio(model, inputs, labels, dense) -> float:  # type: ignore[no-untyped-def]
    matrix = dense(model, CrossEntropy(), inputs, labels)
    mean = CrossEntropy()(model(inputs), labels).mean()
    g = torch.cat([part.flatten() for part in torch.autograd.grad(mean, list(model.parameters()))])
    return float(g @ matrix @ g / (g @ g))


@pytest.mark.parametrize(("kind", "dense"), [(Hessian, dense_hessian), (GGN, dense_ggn)])
def test_the_mean_over_all_batches(kind, dense) -> None:  # type: ignore[no-untyped-def]
    model, inputs, labels = case()
    batches = [list(chosen) for chosen in itertools.combinations(range(6), 2)]
    truth = sum(ratio(model, inputs[b], labels[b], dense) for b in batches) / len(batches)
    found = batch_sharpness(model, CrossEntropy(), inputs, labels, batch_size=2, relative_error=0.03, matrix=kind)
    assert found.converged
    assert found.standard_error <= 0.03 * found.value
    assert abs(found.value - truth) < 4 * found.standard_error
    whole = step_sharpness(model, CrossEntropy(), inputs, labels, matrix=kind)
    assert whole == pytest.approx(ratio(model, inputs, labels, dense))


def test_the_standard_error_is_honest() -> None:
    model, inputs, labels = case()
    draws = [
        batch_sharpness(model, CrossEntropy(), inputs, labels, batch_size=2, seed=s, min_draws=20, max_draws=20)
        for s in range(100)
    ]
    spread = torch.tensor([each.value for each in draws]).std().item()
    assert sum(each.standard_error for each in draws) / 100 == pytest.approx(spread, rel=0.25)
    assert {each.num_draws for each in draws} == {20}


def test_bad_requests_are_refused() -> None:
    model, inputs, labels = case()
    with pytest.raises(ValueError, match="`batch_size` must lie in"):
        batch_sharpness(model, CrossEntropy(), inputs, labels, batch_size=7)
    with pytest.raises(ValueError, match="`min_draws` must lie in"):
        batch_sharpness(model, CrossEntropy(), inputs, labels, batch_size=2, min_draws=1)
    with pytest.raises(ValueError, match="`relative_error` must be positive"):
        batch_sharpness(model, CrossEntropy(), inputs, labels, batch_size=2, relative_error=0)
    with pytest.raises(ValueError, match="gradient of the batch is zero"):
        step_sharpness(model, lambda z, y: 0 * z.sum(dim=1), inputs, labels)
