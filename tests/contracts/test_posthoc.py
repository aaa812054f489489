"""What every post-hoc map in the registry promises."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from surefoot.metrics import nll
from surefoot.posthoc import POSTHOC, load
from surefoot.predictions import Predictions

ALL = pytest.mark.parametrize("name", POSTHOC)
KEEP_THE_CLASS = ["ensemble_temperature", "temperature", "temperature_ece"]
MINIMISE_THE_NLL = ["dirichlet", "ensemble_temperature", "matrix", "temperature", "vector"]
RAGGED = ["bbq", "histogram", "isotonic"]  # step functions, or nearly: one sample may move a lot


def drawn(*, n: int = 600, k: int = 4, temperature: float = 2.0, seed: int = 0) -> Predictions:
    """Labels drawn from softmax(z), logits handed on as z * temperature, with a class-wise shift."""
    generator = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(n, k, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0]
    return Predictions(logits * temperature + 0.3 * torch.arange(k) * (temperature != 1.0), labels)


def probabilities(name: str, fitting: Predictions, logits: Tensor) -> Tensor:
    return POSTHOC[name].fit(fitting)(logits).softmax(dim=1)


@ALL
@pytest.mark.parametrize("k", [2, 4])
def test_same_shape_dtype_and_device_and_the_fit_is_on_record(name: str, k: int) -> None:
    predictions = drawn(k=k)
    fitted = POSTHOC[name].fit(predictions)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        logits = predictions.logits.to(dtype)
        assert fitted(logits).dtype == dtype
        assert fitted(logits).shape == logits.shape
    assert fitted(torch.empty(5, k, device="meta")).device.type == "meta"
    assert fitted(torch.empty(0, k)).shape == (0, k)
    assert (fitted.fitted.num_samples, fitted.fitted.num_classes) == (600, k)
    assert fitted.fitted.converged
    assert 0 <= fitted.fitted.certificate <= 1e-6


@ALL
def test_float32_logits_give_nearly_the_same_map(name: str) -> None:
    exact = drawn()
    rounded = Predictions(exact.logits.float(), exact.labels)
    torch.testing.assert_close(
        probabilities(name, rounded, rounded.exact), probabilities(name, exact, exact.logits), rtol=0, atol=1e-5
    )


@ALL
@pytest.mark.parametrize("temperature", [0.3, 2.0])  # so that maps enlarge logits, and shrink them
def test_finite_always(name: str, temperature: float) -> None:
    fitted = POSTHOC[name].fit(drawn(temperature=temperature))
    extreme = torch.tensor([[1000.0, -1000.0, 0.0, 0.0], [-1000.0, -1000.0, -1000.0, 1000.0], [0.0, 40.0, 0.0, 0.0]])
    for dtype in (torch.float32, torch.float64):
        largest = torch.finfo(dtype).max * torch.tensor([[1.0, -1.0, 1.0, 0.0]], dtype=dtype)
        for logits in (extreme.to(dtype), -extreme.to(dtype), largest, torch.zeros(1, 4, dtype=dtype)):
            assert fitted(logits).isfinite().all()
            assert fitted(logits).softmax(dim=1).isfinite().all()


@ALL
def test_fits_certain_predictions_and_rare_classes(name: str) -> None:
    usual = drawn()
    certain = torch.eye(4, dtype=torch.float64)[usual.labels[:200]] * 1000
    wrong = certain.roll(1, dims=1)[:20]
    predictions = Predictions(
        torch.cat([usual.logits, certain, wrong]), torch.cat([usual.labels, usual.labels[:200], usual.labels[:20]])
    )
    fitted = POSTHOC[name].fit(predictions)
    assert fitted(predictions.logits).isfinite().all()
    assert fitted.fitted.converged


@ALL
def test_refuses_other_numbers_of_classes_and_what_is_not_logits(name: str) -> None:
    fitted = POSTHOC[name].fit(drawn())
    with pytest.raises(ValueError, match="must have 4 classes like the ones the map was fitted on, got 3"):
        fitted(torch.zeros(5, 3))
    with pytest.raises(ValueError, match=r"floating point of shape \[N, K\], got torch.int64 of shape \[5, 4\]"):
        fitted(torch.zeros(5, 4, dtype=torch.long))
    with pytest.raises(ValueError, match="must be finite"):
        fitted(torch.tensor([[0.0, 1.0, 2.0, torch.nan]]))


@ALL
def test_saved_and_loaded_it_is_the_same_bit_for_bit(name: str, tmp_path: Path) -> None:
    predictions = drawn()
    before = POSTHOC[name].fit(predictions)
    before = replace(before, fitted=replace(before.fitted, source="validation.npz"))
    before.save(tmp_path / "map.safetensors")
    after = load(tmp_path / "map.safetensors")
    assert type(after) is type(before)
    assert after.fitted == before.fitted
    assert json.dumps(after.parameters) == json.dumps(before.parameters)
    assert torch.equal(after(predictions.logits), before(predictions.logits))
    assert [path.name for path in tmp_path.iterdir()] == ["map.safetensors"]


@ALL
def test_fitting_leaves_its_input_alone(name: str) -> None:
    predictions = drawn()
    logits, labels = predictions.logits.clone(), predictions.labels.clone()
    fitted = POSTHOC[name].fit(predictions)
    fitted(predictions.logits)
    assert torch.equal(predictions.logits, logits)
    assert torch.equal(predictions.labels, labels)


@ALL
def test_fitting_keeps_no_graph_but_applying_has_gradients(name: str) -> None:
    predictions = drawn()
    fitted = POSTHOC[name].fit(Predictions(predictions.logits.clone().requires_grad_(), predictions.labels))
    assert not fitted(predictions.logits).requires_grad
    logits = predictions.logits.clone().requires_grad_()
    if name not in RAGGED:
        (slope,) = torch.autograd.grad(fitted(logits).log_softmax(dim=1)[:, 0].sum(), logits)
        assert slope.isfinite().all()
        assert slope.any()


@ALL
def test_the_order_of_samples_does_not_matter(name: str) -> None:
    predictions = drawn()
    order = torch.randperm(600, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(
        probabilities(name, predictions[order], predictions.logits),
        probabilities(name, predictions, predictions.logits),
        rtol=0,
        atol=1e-7,
    )


@ALL
def test_relabelling_the_classes_relabels_the_result(name: str) -> None:
    predictions = drawn()
    order = torch.tensor([2, 0, 3, 1])
    relabelled = Predictions(predictions.logits[:, order], order.argsort()[predictions.labels])
    torch.testing.assert_close(
        probabilities(name, relabelled, relabelled.logits),
        probabilities(name, predictions, predictions.logits)[:, order],
        rtol=0,
        atol=1e-7,
    )


@ALL
def test_the_identity_where_predictions_are_calibrated_already(name: str) -> None:
    predictions = drawn(n=40_000, temperature=1.0)
    moved = (probabilities(name, predictions, predictions.logits) - predictions.probabilities).abs()
    assert moved.mean() < (0.02 if name in RAGGED else 0.005)


@ALL
def test_improves_what_is_overconfident(name: str) -> None:
    fitting, fresh = drawn(n=5000), drawn(n=5000, seed=1)
    calibrated = Predictions(POSTHOC[name].fit(fitting)(fresh.logits), fresh.labels)
    assert nll(calibrated) < nll(fresh) - 0.05


@pytest.mark.parametrize("name", MINIMISE_THE_NLL)
@pytest.mark.parametrize("temperature", [0.3, 1.0, 3.0])
def test_the_nll_does_not_rise_on_the_fitting_samples(name: str, temperature: float) -> None:
    predictions = drawn(temperature=temperature)
    calibrated = Predictions(POSTHOC[name].fit(predictions)(predictions.logits), predictions.labels)
    assert nll(calibrated) <= nll(predictions) + 1e-9


@pytest.mark.parametrize("name", KEEP_THE_CLASS)
def test_keeps_the_predicted_class(name: str) -> None:
    predictions = drawn()
    calibrated = Predictions(POSTHOC[name].fit(predictions)(predictions.logits), predictions.labels)
    assert torch.equal(calibrated.predicted, predictions.predicted)


@pytest.mark.parametrize("name", ["bbq", "beta", "dirichlet", "histogram", "isotonic", "platt", "sms", "svs"])
def test_a_class_without_samples_is_no_trouble(name: str) -> None:
    predictions = drawn()
    fitted = POSTHOC[name].fit(predictions[predictions.labels != 2])
    assert fitted(predictions.logits).isfinite().all()
    assert fitted.fitted.converged


@pytest.mark.parametrize("name", ["ensemble_temperature", "matrix", "temperature", "vector"])
def test_where_every_sample_is_right_there_is_no_best_map(name: str) -> None:
    predictions = drawn()
    right = Predictions(predictions.logits, predictions.predicted)
    with pytest.raises(ValueError, match=r"have no best (temperature|affine map)"):
        POSTHOC[name].fit(right)


@pytest.mark.parametrize("name", [name for name in POSTHOC if name not in [*RAGGED, "temperature_ece"]])
def test_says_that_it_has_not_converged(name: str) -> None:
    fitted = POSTHOC[name].fit(drawn(temperature=5.0), max_steps=1)  # type: ignore[call-arg]
    assert not fitted.fitted.converged
    assert fitted.fitted.certificate > 1e-6
    assert fitted.fitted.num_steps == 1


def test_refuses_files_that_are_not_saved_maps(tmp_path: Path) -> None:
    path = tmp_path / "map.safetensors"
    fitted = POSTHOC["vector"].fit(drawn())
    about = {"map": "vector", "plain": {}, "fitted": asdict(fitted.fitted)}
    good = {"weight": torch.ones(4), "bias": torch.zeros(4)}
    cases: list[tuple[dict[str, Tensor], dict[str, str] | None]] = [
        (good, None),
        (good, {"posthoc": "{"}),
        (good, {"posthoc": "[]"}),
        (good, {"posthoc": json.dumps(about | {"map": "vectr"})}),
        (good, {"posthoc": json.dumps(about | {"fitted": {}})}),
        ({"weight": torch.ones(4)}, {"posthoc": json.dumps(about)}),
        (good | {"extra": torch.ones(4)}, {"posthoc": json.dumps(about)}),
        (good | {"bias": torch.zeros(3)}, {"posthoc": json.dumps(about)}),
        (good | {"bias": torch.full((4,), torch.nan)}, {"posthoc": json.dumps(about)}),
    ]
    for tensors, metadata in cases:
        save_file(tensors, path, metadata=metadata)
        with pytest.raises(ValueError, match=r"map.safetensors is not a saved post-hoc map: .*\.$"):
            load(path)
    save_file(good, path, metadata={"posthoc": json.dumps(about)})
    assert load(path).parameters == {"weight": [1.0] * 4, "bias": [0.0] * 4}
    path.write_bytes(b"\x80\x04garbled")
    with pytest.raises(ValueError, match="is not a saved post-hoc map"):
        load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "absent")


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "map.safetensors"
    POSTHOC["matrix"].fit(drawn()).save(path)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ValueError, match="is not a saved post-hoc map"):
        load(path)


@ALL
def test_has_a_docstring(name: str) -> None:
    assert POSTHOC[name].__doc__
