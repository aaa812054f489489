"""`import surefoot as sf`: what is there, when it is imported, and that it works from tensors, arrays and lists."""

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import surefoot as sf
from surefoot.cli import main
from surefoot.posthoc import POSTHOC

SOURCE = Path(__file__).parents[1] / "src"
NAMES = {
    *("Predictions", "read_predictions", "evaluate", "ece", "interval", "StreamingMetrics", "reliability_diagram"),
    *("diagnose", "calibrate", "Temperature", "load", "SAM", "CSAM", "Muon", "MarginAware", "Watch", "sharpness"),
    *("certify", "report"),
}
TWO_CLASSES = ([[2.0, 0.0], [0.0, 1.0]] * 50, [0, 1] * 50)


def drawn(*, n: int = 600, seed: int = 0) -> sf.Predictions:
    """Overconfident predictions of three classes: logits 2.5 times too large."""
    generator = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(n, 3, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0]
    return sf.Predictions(2.5 * logits, labels)


def fresh(code: str) -> str:
    """What a new Python prints."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_the_public_names() -> None:
    assert {name for name in dir(sf) if not name.startswith("__")} == NAMES == set(sf.__all__)
    assert sf._NAMES.keys() == NAMES
    for name in NAMES:
        assert callable(getattr(sf, name)), name
    with pytest.raises(AttributeError, match="no attribute 'evalute'"):
        sf.evalute  # type: ignore[attr-defined]  # noqa: B018


def test_importing_surefoot_imports_nothing_but_its_version() -> None:
    code = (
        "import sys; before = set(sys.modules); import surefoot\n"
        "more = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "assert not {'torch', 'numpy'} & more, more\n"
        "assert {name for name in sys.modules if name.startswith('surefoot.')} == {'surefoot._version'}\n"
        "dir(surefoot); assert 'torch' not in sys.modules"
    )
    fresh(code)


@pytest.mark.parametrize("first", ["", "import surefoot.report.page; ", "import surefoot.report; "])
def test_report_can_be_called_whatever_was_imported_before(first: str) -> None:
    assert "True" in fresh(f"{first}import surefoot as sf, surefoot.report.page as page; print(callable(sf.report))")


def test_the_library_never_imports_from_its_own_front_door() -> None:
    wrong = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "surefoot":
                wrong.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert not wrong


@pytest.mark.parametrize("module", ["surefoot", "surefoot.cli"])
def test_the_command_line_as_a_module(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "--help"], check=True, capture_output=True, text=True)
    assert "evaluate" in done.stdout


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_evaluate_takes_lists_arrays_and_tensors(kind: type) -> None:
    logits, labels = map(kind, TWO_CLASSES)
    result = sf.evaluate(logits, labels)
    ece = result.metrics["ece"]
    assert ece.low <= ece.value <= ece.high
    assert ece.value == pytest.approx(float(sf.ece(sf.Predictions.of(*TWO_CLASSES))), abs=1e-7)
    assert sf.evaluate(sf.Predictions.of(logits, labels)).metrics == result.metrics
    probabilities = torch.tensor(TWO_CLASSES[0], dtype=torch.float64).softmax(dim=1)
    same = sf.evaluate(probabilities=probabilities, labels=labels)
    assert same.metrics["ece"].value == pytest.approx(ece.value, abs=1e-7)


def test_an_evaluation_prints_as_a_table() -> None:
    result = sf.evaluate(*TWO_CLASSES, level=0.9)
    lines = str(result).splitlines()
    assert lines[0] == "100 samples, 2 classes, 15 bins"
    assert lines[1].split("  ")[0] == "metric"
    assert "90 % interval" in lines[1]
    assert any(line.startswith("ece ") and "mean gap between confidence and accuracy" in line for line in lines)
    assert repr(result) == str(result)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([[0.9, 0.1], [0.2, 0.8]], [0, 1]), {}, "pass them as `probabilities`"),
        (([[2.0, 0.0]] * 2,), {}, "`labels` must be given"),
        ((None, [0, 1]), {}, "Give `logits` or `probabilities`"),
        (([[2.0, 0.0]] * 2, [0, 1]), {"probabilities": [[0.5, 0.5]] * 2}, "Give `logits` or `probabilities`"),
        (([[2.0, 0.0], [1.0]], [0, 1]), {}, "`logits` must be an array of numbers"),
        (([["a", "b"]] * 2, [0, 1]), {}, "`logits` must be an array of numbers, got <U1"),
        (([[2.0, 0.0]] * 2, [0.5, 1]), {}, "`labels` must be whole numbers"),
        (([[2.0, 0.0]] * 2, [0, 2]), {}, r"`labels` must lie in 0..1"),
        (([[2.0, 0.0]], [0]), {}, "at least 2 samples, got 1"),
        (([[2.0, 0.0]] * 2, [0, 1]), {"num_bins": 0}, "`num_bins` must be at least 1"),
        (([[2.0, 0.0]] * 2, [0, 1]), {"level": 95}, "`level` must lie between 0 and 0.999"),
    ],
)
def test_what_is_wrong_is_named_as_the_caller_names_it(arguments: tuple, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sf.evaluate(*arguments, **options)


def test_predictions_are_not_given_twice() -> None:
    with pytest.raises(ValueError, match="must not be given beside predictions"):
        sf.evaluate(drawn(), [0, 1])


def test_odd_arrays_become_predictions() -> None:
    logits = np.array(TWO_CLASSES[0], dtype=">f4")[::-1]
    p = sf.Predictions.of(logits, np.array(TWO_CLASSES[1][::-1], dtype=np.uint64)[:, None])
    assert p.correct.all()
    assert sf.Predictions.of(torch.tensor(TWO_CLASSES[0], requires_grad=True), TWO_CLASSES[1]).logits.grad_fn is None
    assert sf.Predictions.of(np.array(TWO_CLASSES[0], dtype=np.longdouble), TWO_CLASSES[1]).num_samples == 100


def test_calibrate_chooses_by_held_out_samples_and_measures_on_the_test_samples(tmp_path: Path) -> None:
    validation, test = drawn(n=400), drawn(n=600, seed=1)
    result = sf.calibrate(validation, test=test)
    scores = {each.name: each.held_out_nll for each in result.choice.candidates}
    assert result.chosen == min(scores, key=lambda name: scores[name] or 1e9) == result.choice.picked
    assert result.before.num_samples == 600
    assert result.after is not None
    assert result.after.metrics["ece"].high < result.before.metrics["ece"].low
    assert result.before.metrics == sf.evaluate(test).metrics
    assert f"{result.chosen} *" in str(result)
    result.calibrator.save(tmp_path / "map.safetensors")
    assert torch.equal(sf.load(tmp_path / "map.safetensors")(test.logits), result.calibrator(test.logits))


def test_calibrate_without_test_samples_is_cross_fitted() -> None:
    p = drawn(n=400)
    result = sf.calibrate((p.logits.numpy(), p.labels.tolist()), method="temperature")
    assert isinstance(result.calibrator, sf.Temperature)
    assert result.calibrator.temperature == sf.Temperature.fit(p).temperature
    assert "each calibrated by a fit on the others" in str(result)
    assert result.after is not None
    assert result.after.metrics["nll"].value < result.before.metrics["nll"].value


def test_doing_nothing_can_be_chosen_and_is_the_identity() -> None:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(400, 3, generator=generator)
    calibrated = sf.Predictions(logits, torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0])
    result = sf.calibrate(calibrated)
    if result.choice.picked == "none":
        assert torch.equal(result.calibrator(logits), logits)
        assert result.after is result.before
    asked = sf.calibrate(calibrated, method="histogram")
    assert asked.chosen == "histogram"
    assert "none has the least NLL" in str(asked)


def test_calibrate_with_several_methods_and_unknown_ones() -> None:
    assert [each.name for each in sf.calibrate(drawn(), method="all").choice.candidates] == list(POSTHOC)
    assert [each.name for each in sf.calibrate(drawn(), method=["beta", "platt"]).choice.candidates] == [
        "beta",
        "platt",
    ]
    with pytest.raises(ValueError, match="Did you mean 'temperature'"):
        sf.calibrate(drawn(), method="temprature")
    with pytest.raises(ValueError, match="`test` must have 3 classes like `validation`, got 2"):
        sf.calibrate(drawn(), test=TWO_CLASSES)
    with pytest.raises(ValueError, match="No sample of `validation` is wrong"):
        sf.calibrate(TWO_CLASSES)


def test_diagnose_says_what_the_command_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    p = drawn()
    np.savez(tmp_path / "p.npz", logits=p.logits.numpy(), labels=p.labels.numpy())
    assert main(["diagnose", str(tmp_path / "p.npz")]) == 0
    shown = capsys.readouterr().out.strip()
    assert str(sf.diagnose(sf.read_predictions(tmp_path / "p.npz"), subject=str(tmp_path / "p.npz"))) == shown
    assert str(sf.diagnose(p.logits.numpy(), p.labels.numpy(), subject=str(tmp_path / "p.npz"))) == shown
    fitted = str(sf.diagnose(p, validation=(p.logits, p.labels)))
    assert "fitted on 600 validation samples" in fitted


def test_a_reliability_diagram_is_svg(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    svg = sf.reliability_diagram(*TWO_CLASSES, path=tmp_path / "d.svg")
    assert svg.startswith("<svg")
    assert (tmp_path / "d.svg").read_text() == svg
    with pytest.raises(ValueError, match=r"`path` must end in \.svg"):
        sf.reliability_diagram(*TWO_CLASSES, path=tmp_path / "d.png")


def test_certify_has_the_bounds_and_leaves_the_model_as_found() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 3)).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    result = sf.certify(model, torch.randn(20, 4), torch.arange(20) % 3)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not result.failed
    names = [each.name for each in result.certificates]
    assert any(name.startswith("4.1 (i)") for name in names)
    assert any(name.startswith("4.1 (ii)") for name in names)
    assert "Sharpness: at least" in str(result)


def test_report_writes_the_page_of_a_folder(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    study = Path(__file__).parents[1] / "results" / "decoupling" / "digits"
    page = sf.report(study, out=tmp_path / "out")
    assert page == tmp_path / "out" / "report.html"
    assert "</html>" in page.read_text()
    with pytest.raises(ValueError, match="`folder` must be the folder of a run or of a study"):
        sf.report(tmp_path / "absent")
