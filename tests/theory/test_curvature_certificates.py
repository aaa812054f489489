import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from references.dense import dense_ggn
from surefoot.curvature import GGN, eigenpairs
from surefoot.losses import CrossEntropy
from surefoot.models import CNN, MLP
from surefoot.predictions import Predictions
from surefoot.theory import (
    SampleCurvature,
    Shift,
    certified_on_shift,
    curvature_certificates,
    input_gradient_margins,
    logit_curvature,
    robust_margins,
    sam_certificates,
    sample_curvature,
)


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


def dense_sharpness(model: nn.Module, inputs: Tensor) -> Tensor:
    labels = torch.zeros(1, dtype=torch.long)
    matrices = [dense_ggn(model, CrossEntropy(), sample[None], labels) for sample in inputs]
    return torch.stack([torch.linalg.eigvalsh(matrix)[-1] for matrix in matrices])


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


class Scaled(nn.Linear):
    def forward(self, inputs: Tensor) -> Tensor:
        return 3 * super().forward(inputs)


def tied() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3))
    model[2].weight, model[2].bias = model[0].weight, model[0].bias
    return model


def hooked() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    model[0].register_forward_hook(lambda module, given, output: 3 * output)
    return model


def in_place() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 9), nn.ReLU(inplace=True), nn.Linear(9, 3))
    with torch.no_grad():
        model[0].bias.sub_(0.5)
    return model


class Reused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.into, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.tanh(self.into(inputs))
        return self.head(hidden + nn.functional.linear(hidden, self.into.weight.T))


class Parts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part, self.head = nn.Linear(2, 3), nn.Linear(6, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(torch.tanh(self.part(inputs.reshape(-1, 2))).reshape(len(inputs), -1))


MODELS = {
    "in place": in_place,
    "subclass": lambda: nn.Sequential(Scaled(4, 5), nn.Tanh(), nn.Linear(5, 3)),
    "hooked": hooked,
    "tied": tied,
    "reused": Reused,
    "parts": Parts,
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
        found = sample_curvature(model, inputs, chunk_size=chunk_size)
        torch.testing.assert_close(found.norms, dense_norms(model, inputs))
        torch.testing.assert_close(found.sharpness, dense_sharpness(model, inputs))


@pytest.mark.parametrize("name", MODELS)
def test_a_rank_sees_less_and_all_of_them_everything(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name]().double()
    inputs = torch.randn(7, 4, dtype=torch.float64)
    exact = sample_curvature(model, inputs)
    parts = [sample_curvature(model, inputs, rank=rank) for rank in (1, 2, 3)]
    for less, more in itertools.pairwise([*parts, exact]):
        assert bool((less.norms <= more.norms * (1 + 1e-12)).all())
        assert bool((less.sharpness <= more.sharpness * (1 + 1e-12)).all())
    torch.testing.assert_close(parts[2].norms, exact.norms)
    torch.testing.assert_close(parts[1].sharpness, exact.sharpness)  # diag p - p p^T has rank 2 for 3 classes


def test_rank_one_by_hand() -> None:
    torch.manual_seed(0)
    model = MLP(input_shape=(4,), num_classes=3, widths=(6,)).double()
    inputs = torch.randn(5, 4, dtype=torch.float64)
    for sample, found in zip(inputs, sample_curvature(model, inputs, rank=1).sharpness, strict=True):
        logits = model(sample[None])[0]
        p = logits.detach().softmax(dim=0)
        value, direction = (part[..., -1] for part in torch.linalg.eigh(torch.diag(p) - torch.outer(p, p)))
        grads = torch.autograd.grad(logits @ direction, list(model.parameters()))
        assert float(found) == pytest.approx(float(value * sum(g.square().sum() for g in grads)))


def test_batch_norm_in_eval_mode_is_left_as_found() -> None:
    torch.manual_seed(0)
    model = CNN(input_shape=(1, 8, 8), num_classes=3, widths=(2, 3)).double()
    inputs = torch.randn(5, 1, 8, 8, dtype=torch.float64)
    model(inputs)
    model.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = sample_curvature(model, inputs).norms
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    torch.testing.assert_close(found, dense_norms(model, inputs))


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (nn.BatchNorm1d(4), "takes mean and variance from the batch"),
        (nn.BatchNorm1d(4, track_running_stats=False).eval(), "let it track running statistics"),
        (nn.Dropout(0.1), "drops units at random"),
    ],
)
def test_what_is_not_a_function_of_one_sample_is_refused(layer: nn.Module, said: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4), layer, nn.Linear(4, 3))
    inputs, labels = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])
    asked = (
        lambda: sample_curvature(model, inputs),
        lambda: robust_margins(model, inputs, labels, radius=0.1),
        lambda: sam_certificates(model, inputs, labels, rho=0.1),
        lambda: certified_on_shift(model, inputs, labels, Shift(True, 0.0, "l2"), radius=0.1, test_ece=0.1),
        lambda: input_gradient_margins(model, inputs, labels, radius=0.1, norm="l2"),
    )
    for ask in asked:
        with pytest.raises(ValueError, match=said):
            ask()
    if layer.training:
        model.eval()
        assert len(sample_curvature(model, inputs).norms) == 5


def test_dropout_of_nothing_is_fine() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0), nn.Linear(4, 3))
    assert len(sample_curvature(model, torch.randn(5, 4)).norms) == 5


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
    found = curvature_certificates(
        predictions, sample_curvature(model, inputs), value, attacked=predictions.margin - 0.3
    )
    for item in found:
        assert item.verdict != "fails", item
    bounds = {item.name: item.bound for item in found}
    paper = bounds["4.1 (ii): sharpness <= 2 C_J^2 (K - 1) Q"]
    ours = bounds["ours: sharpness <= 2 mean ||J_i||^2 (1 - max p_i)"]
    tighter = bounds["ours: sharpness <= mean ||J_i||^2 largest eigenvalue of diag p_i - p_i p_i^T"]
    tightest = bounds["ours: sharpness <= mean sharpness of one sample"]
    assert tightest <= tighter * (1 + 1e-9) + 1e-15
    assert tighter <= ours * (1 + 1e-9) + 1e-15
    assert ours <= paper * (1 + 1e-9) + 1e-15


def test_a_jacobian_bound_that_is_too_small_shows() -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 2).double()
    inputs, labels = torch.randn(5, 3, dtype=torch.float64), torch.tensor([0, 1, 0, 1, 0])
    predictions = Predictions(model(inputs).detach(), labels)
    value = float(torch.linalg.eigvalsh(dense_ggn(model, CrossEntropy(), inputs, labels))[-1])
    samples = sample_curvature(model, inputs)
    smaller = SampleCurvature(samples.norms / 100, samples.sharpness / 10_000)
    verdicts = {item.name: item.verdict for item in curvature_certificates(predictions, smaller, value)}
    fail = {name for name, verdict in verdicts.items() if "sharpness <=" in name and verdict == "fails"}
    assert fail == {name for name in verdicts if "sharpness <=" in name and "4.2" not in name}


def test_without_interpolation_sharpness_needs_no_calibration_error() -> None:
    """4.2 (ii) and (iii) without their assumption: an undecided, perfectly calibrated model is curved."""
    model = nn.Linear(2, 2, bias=False).double()
    with torch.no_grad():
        model.weight.zero_()
    inputs, labels = torch.eye(2, dtype=torch.float64), torch.tensor([0, 1])
    predictions = Predictions(model(inputs).detach(), labels)
    value = float(torch.linalg.eigvalsh(dense_ggn(model, CrossEntropy(), inputs, labels))[-1])
    for item in curvature_certificates(predictions, sample_curvature(model, inputs), value):
        if item.name.startswith("4.2"):
            assert item.verdict == "assumption not met"
            assert item.measured > item.bound == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_sample_alone_meets_its_bound_exactly(dtype: torch.dtype) -> None:
    for seed in range(20):
        torch.manual_seed(seed)
        model = MLP(input_shape=(3,), num_classes=4, widths=(5,)).to(dtype)
        inputs, labels = torch.randn(1, 3, dtype=dtype), torch.tensor([seed % 4])
        predictions = Predictions(model(inputs).detach(), labels)
        matrix = GGN(model, CrossEntropy(), inputs, labels)
        (pair,) = eigenpairs(matrix.__matmul__, matrix.like, tolerance=1e-4)
        found = curvature_certificates(predictions, sample_curvature(model, inputs), pair)[-1]
        assert found.name == "ours: sharpness <= mean sharpness of one sample"
        assert found.verdict == "holds"
        assert found.slack == pytest.approx(1, rel=1e-4)


def test_logit_curvature_is_the_dense_eigenvalue_and_keeps_its_digits() -> None:
    logits = torch.tensor([[0.3, -1.0, 2.0], [40.0, 0.0, 0.0]], dtype=torch.float64)
    p = logits[0].softmax(dim=0)
    dense = float(torch.linalg.eigvalsh(torch.diag(p) - torch.outer(p, p))[-1])
    found = logit_curvature(logits)
    assert float(found[0]) == pytest.approx(dense)
    q = float(torch.tensor(-40.0, dtype=torch.float64).exp())
    assert float(found[1]) == pytest.approx(3 * q, rel=1e-6)  # [2q, -q, -q; -q, q, 0; -q, 0, q] for small q


def test_shapes_are_checked() -> None:
    predictions = Predictions(torch.zeros(3, 2), torch.tensor([0, 1, 0]))
    with pytest.raises(ValueError, match="must be of the 3 samples predicted, got 2"):
        curvature_certificates(predictions, SampleCurvature(torch.ones(2), torch.ones(2)), 1.0)
    for chunk_size in (0, -1):
        with pytest.raises(ValueError, match="`chunk_size` must be at least 1"):
            sample_curvature(nn.Linear(3, 2), torch.zeros(1, 3), chunk_size=chunk_size)
    with pytest.raises(ValueError, match="at least one parameter that requires a gradient"):
        sample_curvature(nn.Linear(3, 2).requires_grad_(False), torch.zeros(1, 3))
    with pytest.raises(ValueError, match="at least 1 sample"):
        sample_curvature(nn.Linear(3, 2), torch.zeros(0, 3))
    with pytest.raises(ValueError, match="`rank` must be between 1 and the number of classes, 2, got 3"):
        sample_curvature(nn.Linear(3, 2), torch.zeros(1, 3), rank=3)
