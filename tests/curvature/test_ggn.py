import pytest
import torch
from torch import Tensor, nn

from references.dense import dense_ggn
from surefoot.curvature import GGN, top_eigenpair, warm_start
from surefoot.losses import MSE, CrossEntropy
from surefoot.models import MLP
from surefoot.params import flat


class Tied(nn.Module):
    """One weight used twice, one frozen, one that nothing depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Linear(4, 4)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.unused = nn.Parameter(torch.ones(3))
        self.head = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(torch.tanh(self.shared(torch.tanh(self.frozen(self.shared(inputs))))))


MODELS = {
    "deep": lambda: MLP(input_shape=(4,), num_classes=3, widths=(6, 5)),
    "gelu": lambda: MLP(input_shape=(4,), num_classes=3, widths=(6,), activation="gelu"),
    "linear": lambda: MLP(input_shape=(4,), num_classes=3, widths=()),
    "relu": lambda: MLP(input_shape=(4,), num_classes=3, widths=(7,), activation="relu"),
    "tied": Tied,
}


def case(name: str, seed: int = 0) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(seed)
    model = MODELS[name]().double()
    return model, torch.randn(9, 4, dtype=torch.float64), torch.randint(0, 3, (9,))


@pytest.mark.parametrize("loss", [CrossEntropy(), MSE()], ids=["ce", "mse"])
@pytest.mark.parametrize("name", MODELS)
def test_products_and_sharpness_equal_the_dense_matrix(name: str, loss: CrossEntropy | MSE) -> None:
    model, inputs, labels = case(name)
    dense = dense_ggn(model, loss, inputs, labels)
    ggn = GGN(model, loss, inputs, labels)
    probes = torch.randn(5, len(dense), dtype=torch.float64)
    torch.testing.assert_close(torch.stack([ggn @ v for v in probes]), probes @ dense, rtol=1e-10, atol=1e-12)
    truth = torch.linalg.eigvalsh(dense)[-1].item()
    start = warm_start(None, like=probes[0], generator=torch.Generator().manual_seed(1))
    found = top_eigenpair(ggn.__matmul__, start, tolerance=1e-8)
    assert found.converged
    assert found.value == pytest.approx(truth, rel=1e-6)
    residual = (dense @ found.vector - found.value * found.vector).norm().item()
    assert found.residual == pytest.approx(residual, rel=1e-3, abs=1e-9)


def test_mse_logit_hessian_is_two_over_k() -> None:
    inputs = torch.eye(4, dtype=torch.float64)
    model = MLP(input_shape=(4,), num_classes=3, widths=()).double()
    model.layers[1].bias.requires_grad_(False)
    ggn = GGN(model, MSE(), inputs, torch.zeros(4, dtype=torch.long))
    v = torch.randn(12, dtype=torch.float64)
    torch.testing.assert_close(ggn @ v, v * (2 / 3) / 4)  # linear in one-hot inputs: (2/K) I times E[x x^T] = I/4


def test_the_model_is_left_as_found() -> None:
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 3))
    model[2].eval()
    for p in model.parameters():
        p.grad = torch.full_like(p, 7.0)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    generator = torch.get_rng_state()
    ggn = GGN(
        model,
        CrossEntropy(),
        torch.randn(8, 4, generator=torch.Generator()),
        torch.zeros(8, dtype=torch.long),
    )
    first, second = (ggn @ torch.ones(sum(p.numel() for p in model.parameters())) for _ in range(2))
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    assert [module.training for module in model] == [True, True, False, True]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(bool((p.grad == 7).all()) for p in model.parameters())
    assert torch.equal(torch.get_rng_state(), generator)


def test_no_tensor_strays_to_another_device() -> None:
    model = MLP(input_shape=(4,), num_classes=3).to("meta")
    for loss in (CrossEntropy(), MSE()):
        ggn = GGN(model, loss, torch.zeros(5, 4, device="meta"), torch.zeros(5, dtype=torch.long, device="meta"))
        image = ggn @ flat([p.detach() for p in ggn.params])
        assert image.device.type == "meta"


def test_a_model_without_trainable_parameters_is_refused() -> None:
    with pytest.raises(ValueError, match="requires a gradient"):
        GGN(nn.Flatten(), CrossEntropy(), torch.zeros(2, 3), torch.zeros(2, dtype=torch.long))
