import pytest
import torch
from torch import nn

from references.dense import dense_ggn, dense_hessian
from surefoot.curvature import GGN, Hessian, adaptive_sharpness, effective_sharpness
from surefoot.losses import CrossEntropy
from surefoot.models import MLP


def case() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    model = MLP(input_shape=(4,), num_classes=3, widths=(5,)).double()
    return model, 2 * torch.randn(9, 4, dtype=torch.float64), torch.randint(0, 3, (9,))


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_effective_sharpness_is_that_of_the_preconditioned_hessian(kind: type[torch.optim.Optimizer]) -> None:
    model, inputs, labels = case()
    optimizer = kind(model.parameters(), lr=0.01)
    squares = torch.zeros(sum(p.numel() for p in model.parameters()), dtype=torch.float64)
    for _ in range(7):
        optimizer.zero_grad()
        CrossEntropy()(model(inputs), labels).mean().backward()
        squares = 0.999 * squares + 0.001 * torch.cat([p.grad.flatten() for p in model.parameters()]).square()
        optimizer.step()
    preconditioner = (squares / (1 - 0.999**7)).sqrt() + 1e-8
    dense = dense_hessian(model, CrossEntropy(), inputs, labels) / preconditioner[:, None]
    truth = torch.linalg.eigvals(dense).real.max().item()
    found = effective_sharpness(Hessian(model, CrossEntropy(), inputs, labels), optimizer, tolerance=1e-6)
    assert found.value == pytest.approx(truth, rel=1e-5)


def test_an_optimizer_without_adams_state_is_refused() -> None:
    model, inputs, labels = case()
    with pytest.raises(ValueError, match=r"after at least one step, got no state for 'layers\.1\.weight'"):
        effective_sharpness(GGN(model, CrossEntropy(), inputs, labels), torch.optim.Adam(model.parameters()))


def test_adaptive_sharpness_does_not_mind_a_factor_between_layers() -> None:
    _, inputs, labels = case()
    relu = MLP(input_shape=(4,), num_classes=3, widths=(5,), activation="relu").double()
    values = []
    for factor in (1.0, 4.0):
        with torch.no_grad():
            relu.layers[1].weight *= factor
            relu.layers[1].bias *= factor
            relu.layers[3].weight /= factor
        dense = dense_ggn(relu, CrossEntropy(), inputs, labels)
        size = torch.cat([p.detach().flatten() for p in relu.parameters()]).abs()
        truth = torch.linalg.eigvalsh(size[:, None] * dense * size)[-1].item()
        found = adaptive_sharpness(GGN(relu, CrossEntropy(), inputs, labels), tolerance=1e-8)
        assert found.value == pytest.approx(truth, rel=1e-6)
        values.append(found.value)
    assert values[0] == pytest.approx(values[1], rel=1e-6)
