import json
from pathlib import Path

import numpy as np
import pytest

from surefoot.cli import main

SPEC = """
budget = 40
optimizer = { name = "gd", lr = 0.5 }
data = { name = "digits", num_train = 100, noisy_labels = 0.4 }
model = { name = "mlp", widths = [32] }
schedule = { every = 10, per_decade = 0 }
observers = { reliability = {} }
"""


def predictions(path: Path, *, sharpen: float, n: int = 2000, seed: int = 0) -> Path:
    """Labels drawn from softmax(z), logits given as sharpen * z: 1 is calibrated, more is overconfident."""
    generator = np.random.default_rng(seed)
    logits = 2 * generator.normal(size=(n, 4))
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (chances.cumsum(axis=1) < generator.random(n)[:, None]).sum(axis=1)
    np.savez(path, logits=sharpen * logits, labels=labels)
    return path


def test_a_file_is_diagnosed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = predictions(tmp_path / "sure.npz", sharpen=3.0)
    assert main(["diagnose", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    rules = {item["rule"]: item for item in found["findings"]}
    assert rules.keys() >= {"confidence", "classes", "confidences", "margin tail", "wrong"}
    assert rules["confidence"]["numbers"]["low"] > 0
    assert "temperature" in found["advice"][0]["sentence"]
    assert found["advice"][0]["expected"] < -0.05
    assert main(["diagnose", str(path)]) == 0
    assert "overconfident on test samples" in capsys.readouterr().out


def test_a_calibrated_file_needs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(predictions(tmp_path / "fine.npz", sharpen=1.0)), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [item["kind"] for item in found["advice"]] == ["nothing"]


def test_a_validation_file_is_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = predictions(tmp_path / "sure.npz", sharpen=3.0)
    held = predictions(tmp_path / "held.npz", sharpen=3.0, seed=1)
    assert main(["diagnose", str(path), "--validation", str(held)]) == 0
    assert "fitted on 2,000 validation samples (T = 3" in capsys.readouterr().out.replace("T = 2.9", "T = 3")


def test_a_run_is_diagnosed_with_its_weights_and_without(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "spec.toml").write_text(SPEC)
    assert main(["train", str(tmp_path / "spec.toml"), "--out", str(tmp_path), "--json"]) == 0
    folder = Path(json.loads(capsys.readouterr().out)["path"])
    assert main(["diagnose", str(folder), "--json"]) == 0
    whole = {item["rule"]: item for item in json.loads(capsys.readouterr().out)["findings"]}
    assert whole.keys() >= {"confidence", "classes", "train and test", "sharpness", "wrong"}
    assert whole["confidence"]["numbers"]["n"] == 1697
    (folder / "checkpoint.safetensors").unlink()
    assert main(["diagnose", str(folder), "--json"]) == 0
    output = capsys.readouterr()
    rows = {item["rule"]: item for item in json.loads(output.out)["findings"]}
    assert "holds no weights" in output.err
    for key in ("gap", "low", "high", "n"):  # the rows' bins say the same as the weights
        assert rows["confidence"]["numbers"][key] == pytest.approx(whole["confidence"]["numbers"][key], abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "`path` does not exist: nowhere."),
        (["folder"], "is not a study folder"),
        (["folder", "--logits", "z"], "`--logits` goes with a file of predictions"),
        (["folder/run.json"], "give the folder, folder."),
    ],
)
def test_bad_requests(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    if "folder/run.json" in arguments:
        (tmp_path / "folder" / "run.json").touch()
    assert main(["diagnose", *arguments]) == 2
    assert message in capsys.readouterr().err
