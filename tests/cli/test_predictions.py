import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from surefoot.cli import main
from surefoot.metrics import METRICS
from surefoot.posthoc import POSTHOC
from surefoot.predictions import Predictions

DATA = Path(os.environ.get("SUREFOOT_DATA") or Path(__file__).parents[3] / "shared" / "data")
KEYS = (
    "accuracy",
    "nll",
    "brier",
    "ece",
    "ada_ece",
    "classwise_ece",
    "mce",
    "rms_ce",
    "sm_ece",
    "kce",
    "mmce",
    "auroc_ovr",
    "auroc_correct",
    "aurc",
    "oe",
    "ue",
    "mean_confidence",
)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Overconfident predictions of three classes in val.npz and test.npz."""
    monkeypatch.chdir(tmp_path)
    generator = torch.Generator().manual_seed(0)
    for name, n in (("val", 400), ("test", 600)):
        logits = 1.5 * torch.randn(n, 3, generator=generator)
        labels = torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0]
        np.savez(f"{name}.npz", logits=2.5 * logits.numpy(), labels=labels.numpy())
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str]) -> dict:
    return json.loads(capsys.readouterr().out)


def test_evaluate_has_every_metric_with_its_interval(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "test.npz", "--json"]) == 0
    found = printed(capsys)
    file = np.load("test.npz")
    predictions = Predictions(torch.from_numpy(file["logits"]), torch.from_numpy(file["labels"]))
    assert (found["n"], found["num_classes"]) == (600, 3)
    for key in KEYS:
        assert set(found[key]) == {"value", "low", "high", "method"}
        assert found[key]["value"] == pytest.approx(METRICS[key](predictions).item())
        assert found[key]["low"] <= found[key]["value"] <= found[key]["high"]
    assert found["ece_p_value"] == pytest.approx(1 / 1001)
    assert sum(each["count"] for each in found["reliability"]) == 600
    parts = found["brier_parts"]
    assert parts["reliability"] - parts["resolution"] + parts["uncertainty"] + parts["within"] == pytest.approx(
        found["brier"]["value"]
    )


def test_evaluate_for_people(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    assert main(["evaluate", "test.npz", "--foreign", "val.npz", "--diagram", "diagram.svg"]) == 0
    shown = capsys.readouterr()
    assert "on the whole overconfident" in " ".join(shown.out.split())
    assert "auroc_ood" in shown.out
    assert Path("diagram.svg").read_text().startswith("<svg")


def test_evaluate_probabilities_and_zeros_of_them(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    probs = np.array([[1.0, 0.0], [0.0, 1.0]] * 10)
    np.savez("sure.npz", p=probs, labels=np.array([0, 1] * 9 + [0, 0]))
    assert main(["evaluate", "sure.npz", "--probs", "p", "--json"]) == 0
    found = printed(capsys)
    assert found["nll"]["value"] is None
    assert found["nll"]["method"] == "infinite: 1 samples gave their true class nothing"
    assert found["accuracy"]["value"] == 0.95
    np.savez("right.npz", p=probs, labels=np.array([0, 1] * 10))
    assert main(["evaluate", "right.npz", "--probs", "p", "--json"]) == 0
    found = printed(capsys)
    assert found["auroc_correct"]["value"] is None
    assert "20 positive and 0 negative" in found["auroc_correct"]["method"]
    assert found["ece"]["value"] == 0


def test_calibrate_then_apply_then_evaluate(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "val.npz", "test.npz", "--json", "--save", "map.safetensors"]) == 0
    found = printed(capsys)["methods"]["temperature"]
    assert found["converged"] is True
    assert found["temperature"] == found["parameters"]["temperature"] == pytest.approx(2.5, rel=0.2)
    assert found["before"]["ece"]["value"] > found["after"]["ece"]["value"]
    assert found["before"]["ece"]["low"] > found["after"]["ece"]["high"]
    assert main(["apply", "map.safetensors", "test.npz", "--json"]) == 0
    applied = printed(capsys)
    assert applied == {"out": "test.calibrated.npz", "n": 600, "num_classes": 3, "fitted_on": "val.npz"}
    assert main(["evaluate", "test.calibrated.npz", "--json"]) == 0
    assert printed(capsys)["ece"]["value"] == pytest.approx(found["after"]["ece"]["value"], abs=1e-6)


def test_calibrate_with_every_method(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "val.npz", "test.npz", "--method", "all", "--json", "--save", "best.safetensors"]) == 0
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert set(found["methods"]) == set(POSTHOC)
    held = {name: record["held_out_nll"] for name, record in found["methods"].items()}
    assert found["picked"] == min(held, key=held.__getitem__)
    assert f"Map {found['picked']}: best.safetensors" in shown.err
    assert all(record["after"]["nll"]["value"] is not None for record in found["methods"].values())
    assert main(["calibrate", "val.npz", "test.npz", "--method", "temperature", "svs"]) == 0
    assert "held-out fifth" in capsys.readouterr().out


def test_calibrate_goes_on_where_one_method_has_no_optimum(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logits = np.array([[2.0, 0.0], [0.0, 2.0]] * 20)
    np.savez("wrong.npz", logits=logits, labels=np.array([1, 0] * 20))
    assert main(["calibrate", "wrong.npz", "wrong.npz", "--method", "temperature", "isotonic", "--json"]) == 0
    found = printed(capsys)["methods"]
    assert "error" in found["temperature"]
    assert "after" in found["isotonic"]
    assert main(["calibrate", "wrong.npz", "wrong.npz"]) == 2
    assert "No map could be fitted on wrong.npz. temperature:" in capsys.readouterr().err


def test_samples_that_are_all_right_cannot_say_how_sure_to_be(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("right.npz", logits=np.array([[2.0, 0.0], [0.0, 2.0]] * 20), labels=np.array([0, 1] * 20))
    assert main(["calibrate", "right.npz", "test.npz", "--method", "all"]) == 2
    assert "No sample of right.npz is wrong" in capsys.readouterr().err


def test_rounded_probabilities_have_the_temperature_of_those_they_were_rounded_from(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(0)
    logits = 2 * random.normal(size=(4000, 6))
    share = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (share.cumsum(axis=1) < random.random((4000, 1))).sum(axis=1)
    sure = np.exp(3 * logits) / np.exp(3 * logits).sum(axis=1, keepdims=True)
    rounded = sure.round(4)
    assert (rounded == 0).mean() > 0.2
    temperatures = []
    for name, probs in (("whole", sure), ("rounded", rounded / rounded.sum(axis=1, keepdims=True))):
        np.savez(f"{name}.npz", probs=probs, labels=labels)
        assert main(["calibrate", f"{name}.npz", f"{name}.npz", "--json"]) == 0
        temperatures.append(printed(capsys)["methods"]["temperature"])
    assert temperatures[0]["temperature"] == pytest.approx(3, rel=0.1)
    assert temperatures[1]["temperature"] < 6  # was 150
    assert temperatures[1]["after"]["ece"]["value"] < temperatures[1]["before"]["ece"]["value"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "absent.npz"], "There is no file absent.npz."),
        (["evaluate", "nan.npz"], "NaN or inf in 2 rows, first in row 3"),
        (["evaluate", "one.npz"], "one.npz must hold at least 2 samples, got 1."),
        (["evaluate", "few.npz"], "at least as many samples as there are bins, got 10 for 15 bins"),
        (["evaluate", "same.npz"], "must hold samples of at least 2 classes, got 1 only"),
        (["evaluate", "empty.npz"], "empty.npz is empty."),
        (["evaluate", "column.npz"], "got one column"),
        (["evaluate", "objects.npz"], "which are never unpickled"),
        (["evaluate", "disguised.npz"], "name them with `--probs`"),
        (["evaluate", "test.npz", "--probs", "logits"], "`probabilities` must lie in [0, 1]"),
        (["evaluate", "test.npz", "--bins", "0"], "`--bins` must be at least 1, got 0."),
        (["evaluate", "test.npz", "--level", "95"], "`--level` must lie between 0 and 0.999, got 95"),
        (["evaluate", "test.npz", "--foreign", "absent.npz"], "There is no file absent.npz."),
        (["calibrate", "val.npz", "wide.npz"], "wide.npz must have 3 classes like val.npz, got 4."),
        (["calibrate", "val.npz", "test.npz", "--method", "temprature"], "Did you mean 'temperature'?"),
        (["calibrate", "val.npz", "test.npz", "--logits", "a", "b", "c"], "one for each, got 3 names"),
        (["apply", "test.npz", "test.npz"], "is not a saved post-hoc map"),
        (["apply", "absent.safetensors", "test.npz"], "absent.safetensors"),
        (["apply", "map.safetensors", "wide.npz"], "must have 3 classes like the ones the map was fitted on, got 4"),
        (["calibrate", "val.npz", "test.npz", "--method", "all", "foo"], "Unknown method 'foo'"),
        (["calibrate", "val.npz", "test.npz", "--save", "no/where"], "there is no folder no."),
        (["evaluate", "test.npz", "--diagram", "d.png"], "`--diagram` must end in .svg, got d.png."),
        (["evaluate", "test.npz", "--foreign", "wide.npz"], "wide.npz must have 3 classes like test.npz, got 4."),
        (["apply", ".", "test.npz"], "is a folder, not a saved post-hoc map"),
        (["apply", "map.safetensors", "short.npz"], "600 rows of logits but labels [2]"),
        (["apply", "map.safetensors", "test.npz", "--out", "x.csv"], "`--out` must end in .npz, got x.csv."),
    ],
)
def test_bad_requests(files: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(40, 4)), np.arange(40) % 4
    np.savez("wide.npz", logits=logits, labels=labels)
    np.savez("nan.npz", logits=np.where(np.isin(np.arange(40), (3, 9))[:, None], np.nan, logits), labels=labels)
    np.savez("one.npz", logits=logits[:1], labels=labels[:1])
    np.savez("few.npz", logits=logits[:10], labels=labels[:10])
    np.savez("same.npz", logits=logits, labels=np.ones_like(labels))
    np.savez("column.npz", logits=logits[:, :1], labels=labels)
    np.savez("objects.npz", logits=logits, labels=labels.astype(object))
    np.savez("disguised.npz", logits=np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), labels=labels)
    np.savez("short.npz", logits=np.load("test.npz")["logits"], labels=labels[:2])
    Path("empty.npz").touch()
    assert main(["calibrate", "val.npz", "test.npz", "--save", "map.safetensors"]) == 0
    capsys.readouterr()
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err
    assert shown.err.count("\n") == 1


@pytest.mark.skipif(not (DATA / "cifar10_resnet_logits.npz").exists(), reason="the logits are not there")
def test_published_resnet_56(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(DATA / "cifar10_resnet_logits.npz")
    assert main(["evaluate", path, "--logits", "resnet56", "--labels", "y", "--json"]) == 0
    found = printed(capsys)
    assert round(found["ece"]["value"], 4) == 0.0464
    assert round(found["accuracy"]["value"], 4) == 0.9339


@pytest.mark.skipif(not (DATA / "densenet40_c10_logits.npz").exists(), reason="the logits are not there")
def test_published_densenet_40(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(DATA / "densenet40_c10_logits.npz")
    names = ["--logits", "logits_val", "logits_test", "--labels", "y_val", "y_test"]
    assert main(["calibrate", path, path, *names, "--json"]) == 0
    found = printed(capsys)["methods"]["temperature"]
    assert round(found["before"]["ece"]["value"], 4) == 0.0550
    assert round(found["after"]["ece"]["value"], 4) == 0.0095


def test_doing_nothing_can_be_the_best_choice(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(400, 3, generator=generator)
    labels = torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0]
    np.savez("calibrated.npz", logits=logits.numpy(), labels=labels.numpy())
    assert main(["calibrate", "calibrated.npz", "calibrated.npz", "--method", "histogram", "--json"]) == 0
    found = printed(capsys)
    assert found["picked"] == "none"
    assert found["held_out_nll_before"] < found["methods"]["histogram"]["held_out_nll"]


def test_calibrate_two_samples_and_impossible_ones(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("two.npz", logits=np.array([[1.0, 0.5], [3.0, 0.0]]), labels=np.array([0, 1]))
    assert main(["calibrate", "two.npz", "two.npz", "--bins", "1", "--method", "platt", "--json"]) == 0
    assert printed(capsys)["methods"]["platt"]["converged"]
    probs = np.array([[1.0, 0.0], [0.0, 1.0]] * 10)
    np.savez("sure.npz", probs=probs, labels=np.array([1, 0] * 10))
    assert main(["calibrate", "sure.npz", "sure.npz", "--method", "histogram", "--json"]) == 0
    shown = capsys.readouterr().out
    assert "Infinity" not in shown
    assert json.loads(shown)["held_out_nll_before"] is None
