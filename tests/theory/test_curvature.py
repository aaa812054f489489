import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from references.dense import dense_ggn
from surefoot.losses import CrossEntropy
from surefoot.models import CNN, MLP
from surefoot.predictions import Predictions
from surefoot.theory import curvature_certificates, jacobian_norms, logit_curvature


def dense_norms(model: nn.Module, inputs: Tensor) -> Tensor:
    params = [p for p in model.parameters() if p.requires_grad]
    norms = []
    for sample in inputs:
        logits = model(sample[None])[0]
        rows = [
            torch.cat(
                [
                    (torch.zeros_like(p) if g is None else g).reshape(-1)
                    for g, p in zip(
                        torch.autograd.grad(logit, params, retain_graph=True, allow_unused=True), params, strict=True
                    )
                ]
            )
            for logit in logits
        ]
        norms.append(torch.linalg.svdvals(torch.stack(rows))[0])
    return torch.stack(norms)


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.twice = nn.Linear(4, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(torch.tanh(self.twice(torch.tanh(self.twice(inputs)))))


def frozen() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    model[0].requires_grad_(False)
    return model


def without_bias_slope() -> nn.Module:
    model = nn.Linear(4, 3)
    model.bias.requires_grad_(False)
    return model


MODELS = {
    "linear": lambda: nn.Linear(4, 3),
    "mlp": lambda: MLP(input_shape=(4,), num_classes=3, widths=(6, 5)),
    "no bias": lambda: nn.Sequential(nn.Linear(4, 6, bias=False), nn.ReLU(), nn.Linear(6, 3)),
    "normalised": lambda: nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Tanh(), nn.Linear(6, 3)),
    "shared": Shared,
    "frozen": frozen,
    "frozen bias": without_bias_slope,
    "convolutions": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 3, 2, padding=1, stride=2), nn.Tanh(), nn.Flatten(), nn.Linear(12, 3)
    ),
    "grouped": lambda: nn.Sequential(
        nn.Unflatten(1, (2, 2, 1)), nn.Conv2d(2, 4, 1, groups=2), nn.Flatten(), nn.Linear(8, 3)
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_norms_are_those_of_dense_jacobians(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name]().double()
    inputs = torch.randn(7, 4, dtype=torch.float64)
    for chunk_size in (None, 3):
        torch.testing.assert_close(jacobian_norms(model, inputs, chunk_size=chunk_size), dense_norms(model, inputs))


def test_batch_norm_is_looked_at_in_eval_mode() -> None:
    torch.manual_seed(0)
    model = CNN(input_shape=(1, 8, 8), num_classes=3, widths=(2, 3)).double()
    inputs = torch.randn(5, 1, 8, 8, dtype=torch.float64)
    model(inputs)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = jacobian_norms(model, inputs)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    torch.testing.assert_close(found, dense_norms(model.eval(), inputs))


@given(
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([0.1, 1.0, 5.0, 30.0]),
    right=st.booleans(),
    k=st.integers(2, 5),
)
@settings(max_examples=60, deadline=None)
def test_no_inequality_ever_fails(seed: int, scale: float, right: bool, k: int) -> None:
    torch.manual_seed(seed)
    model = MLP(input_shape=(3,), num_classes=k, widths=(4,)).double()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(scale)
    inputs = torch.randn(6, 3, dtype=torch.float64)
    logits = model(inputs).detach()
    labels = logits.argmax(dim=1) if right else torch.randint(k, (6,))
    predictions = Predictions(logits, labels)
    value = float(torch.linalg.eigvalsh(dense_ggn(model, CrossEntropy(), inputs, labels))[-1])
    found = curvature_certificates(predictions, jacobian_norms(model, inputs), value, attacked=predictions.margin - 0.3)
    for item in found:
        assert item.verdict != "fails", item
    bounds = {item.name: item.bound for item in found}
    paper = bounds["4.1 (ii): sharpness <= 2 C_J^2 (K - 1) Q"]
    ours = bounds["ours: sharpness <= 2 mean ||J_i||^2 (1 - max p_i)"]
    tightest = bounds["ours: sharpness <= mean ||J_i||^2 largest eigenvalue of diag p_i - p_i p_i^T"]
    assert tightest <= ours * (1 + 1e-9) + 1e-15
    assert ours <= paper * (1 + 1e-9) + 1e-15


def test_a_jacobian_bound_that_is_too_small_shows() -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 2).double()
    inputs, labels = torch.randn(5, 3, dtype=torch.float64), torch.tensor([0, 1, 0, 1, 0])
    predictions = Predictions(model(inputs).detach(), labels)
    value = float(torch.linalg.eigvalsh(dense_ggn(model, CrossEntropy(), inputs, labels))[-1])
    found = curvature_certificates(predictions, jacobian_norms(model, inputs) / 100, value)
    assert any(item.verdict == "fails" for item in found)


def test_logit_curvature_is_the_dense_eigenvalue_and_keeps_its_digits() -> None:
    logits = torch.tensor([[0.3, -1.0, 2.0], [40.0, 0.0, 0.0]], dtype=torch.float64)
    p = logits[0].softmax(dim=0)
    dense = float(torch.linalg.eigvalsh(torch.diag(p) - torch.outer(p, p))[-1])
    found = logit_curvature(Predictions(logits, torch.tensor([0, 0])))
    assert float(found[0]) == pytest.approx(dense)
    q = float(torch.tensor(-40.0, dtype=torch.float64).exp())
    assert float(found[1]) == pytest.approx(3 * q, rel=1e-6)  # [2q, -q, -q; -q, q, 0; -q, 0, q] for small q


def test_shapes_are_checked() -> None:
    predictions = Predictions(torch.zeros(3, 2), torch.tensor([0, 1, 0]))
    with pytest.raises(ValueError, match=r"`norms` must have shape \[3\], got \[2\]"):
        curvature_certificates(predictions, torch.ones(2), 1.0)
