"""Fitted maps as modules, through torch.export and ONNX."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Self

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from surefoot.integrations.calibrated import Calibrated, MapModule
from surefoot.integrations.onnx import write_onnx
from surefoot.posthoc import POSTHOC, Fit, Map
from surefoot.posthoc._one_versus_rest import places
from surefoot.predictions import Predictions

ALL = pytest.mark.parametrize("name", POSTHOC)


def drawn(*, n: int = 600, k: int = 4, seed: int = 0) -> Predictions:
    generator = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(n, k, generator=generator)
    labels = torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0]
    return Predictions(2 * logits + 0.3 * torch.arange(k), labels)


def net(k: int = 4) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, k)).eval()


def ran(path: Path, *inputs: Tensor) -> Tensor:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [part.name for part in session.get_inputs()]
    return torch.from_numpy(session.run(None, dict(zip(names, (part.numpy() for part in inputs), strict=True)))[0])


@ALL
@pytest.mark.parametrize("k", [2, 4])
def test_the_module_is_the_map(name: str, k: int) -> None:
    predictions = drawn(k=k)
    fitted = POSTHOC[name].fit(predictions)
    module = MapModule(fitted)
    for dtype in (torch.float32, torch.float64):
        logits = predictions.logits.to(dtype)
        assert torch.equal(module(logits), fitted(logits))
    again = MapModule(POSTHOC[name].fit(drawn(k=k, seed=1)))
    same_shapes = all(again.get_buffer(key).shape == value.shape for key, value in module.named_buffers())
    if same_shapes:
        again.load_state_dict(module.state_dict())
        assert torch.equal(again(predictions.logits), fitted(predictions.logits))
    assert not list(module.parameters())


@ALL
def test_through_torch_export_with_the_model_for_any_number_of_samples(name: str) -> None:
    fitted = POSTHOC[name].fit(drawn())
    model = nn.Sequential(net(), MapModule(fitted))
    inputs = torch.randn(50, 6, generator=torch.Generator().manual_seed(1))
    program = torch.export.export(model, (inputs[:3],), dynamic_shapes=({0: torch.export.Dim("n")},))
    torch.testing.assert_close(program.module()(inputs), fitted(model[0](inputs)), rtol=1e-6, atol=1e-6)


@ALL
def test_through_onnx_with_the_model(name: str, tmp_path: Path) -> None:
    logits = 3 * net()(torch.randn(600, 6, generator=torch.Generator().manual_seed(2)))
    labels = torch.multinomial((logits / 2).softmax(dim=1), 1, generator=torch.Generator().manual_seed(2))[:, 0]
    fitted = POSTHOC[name].fit(Predictions(logits.detach(), labels))
    model = Calibrated(net(), fitted)
    inputs = torch.randn(300, 6, generator=torch.Generator().manual_seed(3))
    distance = write_onnx(model, inputs[:20], tmp_path / "model.onnx")
    assert distance <= 1e-5
    torch.testing.assert_close(ran(tmp_path / "model.onnx", inputs), fitted(net()(inputs).detach()), rtol=0, atol=1e-5)
    assert not model.model.training


def test_rows_that_are_not_finite_give_nan_and_others_stay(tmp_path: Path) -> None:
    logits = drawn().logits[:4].clone()
    logits[1, 2], logits[2, 0] = torch.nan, torch.inf
    for name, kind in POSTHOC.items():
        fitted = kind.fit(drawn())
        mapped = MapModule(fitted)(logits)
        assert mapped.isnan().all(dim=1).tolist() == [False, True, True, False], name
        assert torch.equal(mapped[::3], fitted(logits[::3]))
        assert MapModule(fitted)(torch.full((1, 4), 3e38)).isfinite().all()
    write_onnx(MapModule(POSTHOC["isotonic"].fit(drawn())), logits[[0, 3]], tmp_path / "map.onnx")
    assert ran(tmp_path / "map.onnx", logits).isnan().all(dim=1).tolist() == [False, True, True, False]


def test_precision_of_what_was_fitted_survives_half() -> None:
    fitted = POSTHOC["matrix"].fit(drawn())
    logits = drawn().logits
    model = nn.Sequential(nn.Identity(), MapModule(fitted)).half()
    assert torch.equal(model(logits), fitted(logits))
    assert model(logits.half()).dtype == torch.float16
    assert model.to("meta")(logits.to("meta")).device.type == "meta"


def test_what_the_model_returns() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def forward(self, inputs: Tensor) -> SimpleNamespace:
            return SimpleNamespace(logits=self.net(inputs))

    fitted = POSTHOC["vector"].fit(drawn())
    inputs = torch.randn(5, 6)
    with pytest.raises(TypeError, match=r"`model` must return logits, got a SimpleNamespace: pass `logits`"):
        Calibrated(Named(), fitted)(inputs)
    found = Calibrated(Named(), fitted, logits=lambda output: output.logits)(inputs)
    assert torch.equal(found, fitted(net()(inputs)))
    with pytest.raises(
        ValueError, match=r"must be of shape \[N, 4\] like the ones the map was fitted on, got \[5, 6\]"
    ):
        MapModule(fitted)(inputs)
    with pytest.raises(TypeError, match="must be a fitted post-hoc map, got ABCMeta"):
        MapModule(POSTHOC["vector"])  # type: ignore[arg-type]


def test_a_map_of_other_things_than_tensors_is_refused() -> None:
    @dataclass(frozen=True, eq=False)
    class Spelt(Map):
        how: str = field(default="as is")

        def _mapped(self, logits: Tensor) -> Tensor:
            return logits

        @classmethod
        def fit(cls, predictions: Predictions) -> Self:
            return cls(fitted=Fit(predictions.num_samples, predictions.num_classes, True, 0.0, 0))

    with pytest.raises(
        TypeError, match="must consist of tensors and numbers to be exported, got a str as `how` of Spelt"
    ):
        MapModule(Spelt.fit(drawn()))


def test_several_inputs_and_a_training_model(tmp_path: Path) -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def forward(self, one: Tensor, other: Tensor) -> Tensor:
            return self.net(one + other)

    model = Calibrated(Sum(), POSTHOC["temperature"].fit(drawn())).train()
    inputs = torch.randn(7, 6), torch.randn(7, 6)
    write_onnx(model, inputs, tmp_path / "model.onnx")
    assert all(module.training for module in model.modules())
    model.eval()
    torch.testing.assert_close(ran(tmp_path / "model.onnx", *inputs), model(*inputs).detach(), rtol=0, atol=1e-5)


def test_what_is_no_onnx_file_is_not_written(tmp_path: Path) -> None:
    class Drifting(nn.Module):
        """Not the same function twice: what is exported is not what runs."""

        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, logits: Tensor) -> Tensor:
            self.calls += 1
            return logits + self.calls

    path = tmp_path / "model.onnx"
    with pytest.raises(ValueError, match=r"onnxruntime must agree with torch to 1e-05 \(`tolerance`\), got 1"):
        write_onnx(Drifting(), torch.randn(3, 4), path)
    with pytest.raises(ValueError, match="`inputs` must be a tensor, or several, of at least 2 samples each"):
        write_onnx(net(), torch.randn(1, 6), path)
    with pytest.raises(TypeError, match="`model` must return a tensor, got a tuple: wrap it in `Calibrated`"):
        write_onnx(nn.LSTM(6, 3), torch.randn(3, 6), path)
    assert not path.exists()


def test_places_by_halving_are_those_of_searchsorted(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    for num_edges in (1, 2, 3, 4, 7, 8, 9, 31, 100):
        edges = torch.from_numpy(generator.integers(0, 9, (3, num_edges))).double().sort(dim=1).values
        values = torch.from_numpy(generator.integers(-1, 11, (3, 50))).double()
        expected = torch.searchsorted(edges, values)
        with monkeypatch.context() as patch:
            patch.setattr(torch.compiler, "is_compiling", lambda: True)
            assert torch.equal(places(edges, values), expected)
