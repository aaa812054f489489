from pathlib import Path

import pytest
import torch
from torch import nn

from references.dense import dense_ggn, dense_hessian
from references.processes import in_two_processes
from surefoot.curvature import GGN, Hessian, sharpness, sharpness_by_layer
from surefoot.losses import CrossEntropy
from surefoot.models import MLP, ResNet


def case() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    model = MLP(input_shape=(4,), num_classes=3, widths=(5,)).double()
    return model, 2 * torch.randn(9, 4, dtype=torch.float64), torch.randint(0, 3, (9,))


def test_both_ends_of_both_spectra() -> None:
    model, inputs, labels = case()
    for matrix, dense in ((GGN, dense_ggn), (Hessian, dense_hessian)):
        values = torch.linalg.eigvalsh(dense(model, CrossEntropy(), inputs, labels))
        for which, truth in (("largest algebraic", values[-1]), ("smallest algebraic", values[0])):
            found = sharpness(
                model, CrossEntropy(), (inputs, labels), matrix=matrix, which=which, tolerance=1e-6, max_matvecs=200
            )
            assert found.value == pytest.approx(truth.item(), rel=1e-5, abs=1e-10)
    assert values[0] < -1e-3  # the Hessian's has a negative end


def test_data_in_any_form() -> None:
    model, inputs, labels = case()
    dataset = torch.utils.data.TensorDataset(inputs, labels)
    loader = torch.utils.data.DataLoader(dataset, batch_size=4)
    whole = sharpness(model, nn.CrossEntropyLoss(), (inputs, labels), tolerance=1e-8)
    batched = sharpness(model, nn.CrossEntropyLoss(), loader, tolerance=1e-8)
    assert batched.value == pytest.approx(whole.value, rel=1e-9)
    with pytest.raises(ValueError, match="reduction='sum'"):
        sharpness(model, nn.CrossEntropyLoss(reduction="sum"), (inputs, labels))
    with pytest.raises(ValueError, match="Did you mean 'largest algebraic'"):
        sharpness(model, CrossEntropy(), (inputs, labels), which="largest algebra")  # type: ignore[arg-type]


@pytest.mark.parametrize("matrix", [GGN, Hessian])
def test_each_layer_is_a_block_of_the_matrix(matrix: type[GGN | Hessian]) -> None:
    model, inputs, labels = case()
    dense = (dense_ggn if matrix is GGN else dense_hessian)(model, CrossEntropy(), inputs, labels)
    batches = iter([(inputs[:4], labels[:4]), (inputs[4:], labels[4:])])  # can be read once only
    found = sharpness_by_layer(model, CrossEntropy(), batches, matrix=matrix, tolerance=1e-8)
    assert list(found) == ["layers.1", "layers.3"]
    first = sum(p.numel() for p in model.layers[1].parameters())
    for block, pair in zip((dense[:first, :first], dense[first:, first:]), found.values(), strict=True):
        assert pair.value == pytest.approx(torch.linalg.eigvalsh(block)[-1].item(), rel=1e-7)


def test_a_residual_network_in_low_precision() -> None:
    torch.manual_seed(0)
    model = ResNet(input_shape=(3, 8, 8), num_classes=4, depth=8)
    inputs, labels = torch.randn(6, 3, 8, 8), torch.randint(4, (6,))
    single = sharpness(model, CrossEntropy(), (inputs, labels))
    assert single.converged
    double = sharpness(model.double(), CrossEntropy(), (inputs.double(), labels), tolerance=1e-4)
    assert single.value == pytest.approx(double.value, rel=0.01)
    half = sharpness(model.bfloat16(), CrossEntropy(), (inputs.bfloat16(), labels), tolerance=0.05)
    assert half.value == pytest.approx(double.value, rel=0.1)


def _process(rank: int, folder: Path) -> None:
    model, inputs, labels = case()
    part = slice(0, 3) if rank == 0 else slice(3, 9)
    for matrix in (GGN, Hessian):
        found = sharpness(model, CrossEntropy(), (inputs[part], labels[part]), matrix=matrix, tolerance=1e-8)
        torch.save([found.value, found.vector], folder / f"{matrix.__name__}-{rank}.pt")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_two_processes_agree_with_one(tmp_path: Path) -> None:
    in_two_processes(_process, tmp_path)
    model, inputs, labels = case()
    for matrix in (GGN, Hessian):
        alone = sharpness(model, CrossEntropy(), (inputs, labels), matrix=matrix, tolerance=1e-8)
        for rank in (0, 1):
            value, vector = torch.load(tmp_path / f"{matrix.__name__}-{rank}.pt", weights_only=True)
            assert value == pytest.approx(alone.value, rel=1e-10)
            torch.testing.assert_close(vector, alone.vector, rtol=1e-6, atol=1e-8)
