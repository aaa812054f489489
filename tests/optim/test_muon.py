from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from references.golden import GOLDEN
from surefoot.models import CNN
from surefoot.optim import Muon, muon, orthogonalized
from surefoot.optim.muon import COEFFICIENTS, has_bfloat16

CASES = GOLDEN["muon_newton_schulz5_float64"]


@pytest.mark.parametrize(
    ("key", "matrix"),
    [
        ("diag(3,1)", [[3.0, 0.0], [0.0, 1.0]]),
        ("M=[[1,2,3],[4,5,6]]", [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
        ("tall 3x2 (transpose path) [[1,2],[3,4],[5,6]]", [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    ],
)
def test_golden_values(key: str, matrix: list[list[float]]) -> None:
    single = 4e-2 if has_bfloat16(torch.device("cpu")) else 1e-5
    for dtype, atol in ((torch.float64, 1e-7), (torch.float32, single)):
        found = orthogonalized(torch.tensor(matrix, dtype=dtype))
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), torch.tensor(CASES[key]).double(), atol=atol, rtol=0)


@pytest.mark.parametrize("shape", [(6, 6), (5, 20), (20, 5)])
def test_it_is_the_quintic_map_on_the_singular_values_of_a_dense_decomposition(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    u, s, vh = torch.linalg.svd(matrix, full_matrices=False)
    a, b, c = COEFFICIENTS
    mapped = s / (s.norm() + 1e-7)
    for _ in range(5):
        mapped = a * mapped + b * mapped**3 + c * mapped**5
    torch.testing.assert_close(orthogonalized(matrix), u @ torch.diag(mapped) @ vh, atol=1e-10, rtol=0)
    large = s / s.norm() >= 0.01
    assert bool(((mapped[large] > 0.68) & (mapped[large] < 1.14)).all())


def test_the_precision_follows_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    exact = orthogonalized(matrix.double()).float()
    for native, low, high in ((False, 0, 1e-5), (True, 1e-4, 4e-2)):
        monkeypatch.setattr(muon, "has_bfloat16", lambda device, native=native: native)
        error = float((orthogonalized(matrix) - exact).abs().max())
        assert low <= error <= high
    assert has_bfloat16(torch.device("cuda"))


def test_a_step_is_torchs_up_to_its_half_precision() -> None:
    matrices = []
    for build in (
        lambda w: Muon([{"params": [w], "rule": "muon"}], lr=0.1, weight_decay=0.1),
        lambda w: torch.optim.Muon([w], lr=0.1, weight_decay=0.1),
    ):
        generator = torch.Generator().manual_seed(0)
        w = nn.Parameter(torch.randn(12, 8, generator=generator))
        optimizer: Any = build(w)
        for _ in range(3):
            w.grad = torch.randn(12, 8, generator=generator)
            optimizer.step()
        matrices.append(w.detach())
    torch.testing.assert_close(*matrices, atol=3 * 0.1 * 0.04, rtol=0)


def test_the_split_is_visible_and_can_be_overridden() -> None:
    model = CNN(input_shape=(3, 32, 32), num_classes=10)
    optimizer = Muon(model.named_parameters())
    assert optimizer.split["muon"] == ["features.4.weight", "features.8.weight"]
    assert "features.0.weight" in optimizer.split["adamw"]
    assert "head.weight" in optimizer.split["adamw"]
    names = dict(model.named_parameters())
    chosen = Muon(
        [
            {"params": [("features.0.weight", names["features.0.weight"])], "rule": "muon", "lr": 0.5},
            {"params": [("head.weight", names["head.weight"])], "rule": "adamw"},
        ]
    )
    assert chosen.split == {"muon": ["features.0.weight"], "adamw": ["head.weight"]}
    assert [group["lr"] for group in chosen.param_groups] == [0.5, 3e-4]
    embedded = nn.ModuleDict({"embed": nn.Embedding(5, 4), "middle": nn.Linear(4, 4), "head": nn.Linear(4, 2)})
    assert Muon(embedded.named_parameters()).split["muon"] == ["middle.weight"]
    assert Muon(embedded.parameters()).split["muon"] == ["0", "1"]
    vision = nn.ModuleDict({"class_token": nn.Embedding(1, 4), "conv_proj": nn.Conv2d(3, 4, 2), "mlp": nn.Linear(4, 4)})
    vision["classifier"] = nn.Linear(4, 2)
    vision.scale = nn.Parameter(torch.ones(4, 1, 1))
    assert Muon(vision.named_parameters()).split["muon"] == ["mlp.weight"]
    first = nn.ModuleDict({"head": nn.Linear(4, 2), "a": nn.Linear(4, 4), "b": nn.Linear(4, 4)})
    assert Muon(first.named_parameters()).split["muon"] == ["a.weight", "b.weight"]


def test_groups_that_come_later_get_their_rules_defaults() -> None:
    w, v = nn.Parameter(torch.ones(3, 3)), nn.Parameter(torch.ones(3))
    optimizer = Muon([{"params": [w], "rule": "muon"}])
    optimizer.add_param_group({"params": [v], "rule": "adamw"})
    w.grad, v.grad = torch.eye(3), torch.ones(3)
    optimizer.step()
    assert v.tolist() == pytest.approx([1 - 3e-4] * 3)
    assert not torch.equal(w, torch.ones(3, 3))
    torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=10)
    with pytest.raises(ValueError, match="at least two dimensions"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))], "rule": "muon"})
    with pytest.raises(ValueError, match="needs a `rule`"):
        Muon([{"params": [w], "lr": 0.1}])
    with pytest.raises(ValueError, match="`weight_decay` must be at least 0"):
        Muon([w], weight_decay=-1.0)


def test_a_tall_convolution_is_scaled_as_the_flattened_matrix() -> None:
    w = nn.Parameter(torch.zeros(64, 4, 1, 1, dtype=torch.float64))
    optimizer = Muon([{"params": [w], "rule": "muon"}], lr=1.0, momentum=0.0)
    w.grad = torch.randn(64, 4, 1, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    optimizer.step()
    values = torch.linalg.svdvals(w.detach().view(64, 4))
    assert 0.68 * 4 < float(values.min()) <= float(values.max()) < 1.14 * 4


def test_convolutions_and_the_rest_both_move_and_resume(tmp_path: Path) -> None:
    weights = []
    for cut in (False, True):
        torch.manual_seed(0)
        model = CNN(input_shape=(1, 8, 8), num_classes=3, widths=(4, 8))
        inputs, labels = torch.randn(16, 1, 8, 8), torch.arange(16) % 3
        optimizer = Muon(model.named_parameters())
        before = [p.detach().clone() for p in model.parameters()]
        for step in range(6):
            if cut and step == 3:
                torch.save(optimizer.state_dict(), tmp_path / "state.pt")
                optimizer = Muon(model.named_parameters(), lr=9.0, adamw_lr=9.0)
                optimizer.load_state_dict(torch.load(tmp_path / "state.pt"))
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
        assert not any(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))
        weights.append(nn.utils.parameters_to_vector(model.parameters()).detach())
    assert torch.equal(*weights)


def test_bad_arguments_are_refused() -> None:
    w = nn.Parameter(torch.ones(2, 2))
    with pytest.raises(ValueError, match='`rule` must be "muon" or "adamw", got \'sgd\''):
        Muon([{"params": [w], "rule": "sgd"}])
    with pytest.raises(ValueError, match="at least two dimensions"):
        Muon([{"params": [nn.Parameter(torch.ones(2))], "rule": "muon"}])
    with pytest.raises(ValueError, match="`momentum`"):
        Muon([w], momentum=1.0)
    with pytest.raises(ValueError, match="`num_iterations`"):
        Muon([w], num_iterations=0)
    with pytest.raises(ValueError, match="`lr`"):
        Muon([w], lr=-1.0)
    with pytest.raises(ValueError, match="empty"):
        Muon([])
