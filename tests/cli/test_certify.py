import json
from pathlib import Path

import numpy as np
import pytest

from surefoot.cli import main
from surefoot.runs.folder import RunFolder
from surefoot.theory import certificate

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no row of a table is broken into lines."""
    monkeypatch.setenv("COLUMNS", "600")


def trained(folder: Path, optimizer: str = 'name = "gd", lr = 0.1', activation: str = "tanh") -> Path:
    spec = folder / "spec.toml"
    spec.write_text(
        f"budget = 3\noptimizer = {{{optimizer}}}\ndata = {{name = 'digits', num_train = 100}}\n"
        f"model = {{name = 'mlp', widths = [5], activation = '{activation}'}}\nobservers = {{certificates = {{}}}}\n"
    )
    assert main(["train", str(spec), "--out", str(folder / "runs")]) == 0
    (run,) = (folder / "runs").iterdir()
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("gd"))


@pytest.fixture
def sure(tmp_path: Path) -> Path:
    np.savez(tmp_path / "sure.npz", logits=np.array([[9.0, 0, 0], [0, 7.0, 0]]), labels=np.array([0, 1]))
    return tmp_path / "sure.npz"


def test_a_run(run: Path, capsys: Capture) -> None:
    (last,) = [row for row in RunFolder(run).rows()[0] if row["step"] == 3]
    assert last["train/failed"] == 0
    assert main(["certify", str(run), "--json", "--worst", "3"]) == 0
    told = json.loads(capsys.readouterr().out)
    found = {item["name"]: item for item in told["certificates"]}
    assert told["regime"] == "overlap"
    assert len(told["worst"]) == 3
    assert {item["holds"] for item in found.values()} == {True, None}
    first = found["4.1 (i): ECE <= (K - 1) Q"]
    assert first["bound"] == pytest.approx(last["train/bound_ece"], rel=1e-5)
    assert first["measured"] == pytest.approx(last["train/ece"], rel=1e-5)
    assert first["verdict"] == "holds"
    assert found["4.2 (i): Q / K <= ECE"]["holds"] is None
    assert told["c_j"] == pytest.approx(last["train/c_j"], rel=1e-4)
    tight = found["ours: sharpness <= mean ||J_i||^2 largest eigenvalue of diag p_i - p_i p_i^T"]
    assert tight["bound"] < found["4.1 (ii): sharpness <= 2 C_J^2 (K - 1) Q"]["bound"]
    assert main(["certify", str(run), "--radius", "0.1", "--rho", "0.05", "--batch", "10", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    found = {item["name"]: item for item in told["certificates"]}
    assert told["robust"] == "proved"
    assert found["4.1 (i): ECE <= (K - 1) Q0"]["holds"]
    assert found["B.8: test ECE <= (K - 1) Q0"]["holds"] is None  # an ordinary test set is further away
    assert found["Lemma 2 along the gradient"]["holds"]
    assert False not in {item["holds"] for item in found.values()}
    assert told["failed"] == 0


def test_a_file(sure: Path, capsys: Capture) -> None:
    assert main(["certify", str(sure)]) == 0
    shown = capsys.readouterr().out
    assert "interpolating: every sample is right with a positive margin" in shown
    assert "B.3" in shown
    assert "inf" not in shown.replace("confidence", "")


def test_sharpness_comes_with_its_interval(run: Path, capsys: Capture) -> None:
    assert main(["certify", str(run), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    found = told["sharpness"]
    (measured,) = {c["measured"] for c in told["certificates"] if c["name"].startswith("ours: sharpness <=")}
    assert found["value"] == measured
    assert found["value"] <= found["bound"] <= 1.0101 * found["value"]
    assert found["delta"] == 0.05
    assert found["certified"]
    assert main(["certify", str(run)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"Sharpness: at least {measured:.4g} (certain)" in shown
    assert f"at most {found['bound']:.4g} (probability 95%)" in shown
    assert f"C_J {told['c_j']:.4g}" in shown


def test_theorem_3_is_evaluated_for_the_gamma_named(run: Path, tmp_path: Path, capsys: Capture) -> None:
    csam = trained(tmp_path, 'name = "csam", lr = 0.1, rho = 0.05, gamma = 1.5')
    capsys.readouterr()
    for path, options, gamma in ((run, [], 1.0), (run, ["--gamma", "0.5"], 0.5), (csam, [], 1.5)):
        arguments = ["certify", str(path), "--rho", "0.05", "--batch", "10", *options]
        assert main([*arguments, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["rho"], told["gamma"], told["batch"]) == (0.05, gamma, 10)
        assert told["certificates"][-1]["name"].startswith(
            "Theorem 3: l + (1 - gamma / 2) H(p~_y) <= (1 + p~_y)^-gamma"
        )
        assert told["certificates"][-1]["name"].endswith(f"gamma = {gamma:g}")
        assert main(arguments) == 0
        shown = " ".join(capsys.readouterr().out.split())  # a title is broken into lines as wide as its table
        assert f"gamma {gamma:g}, batch 10" in shown


def test_a_gamma_beyond_the_theorem_must_be_replaced(tmp_path: Path, capsys: Capture) -> None:
    beyond = trained(tmp_path, 'name = "csam", lr = 0.1, gamma = 2.5, beyond_two = true')
    assert main(["certify", str(beyond), "--rho", "0.05"]) == 2
    assert "needs gamma in [0, 2], and this run has 2.5: give `--gamma`" in capsys.readouterr().err
    assert main(["certify", str(beyond)]) == 0


def test_reasons_are_numbered_and_all_shown(tmp_path: Path, capsys: Capture) -> None:
    run = trained(tmp_path, activation="relu")
    capsys.readouterr()
    arguments = ["certify", str(run), "--rho", "1e-9", "--batch", "10"]
    assert main([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["certificates"]
    unmet = [item for item in told if item["holds"] is None]
    reasons = list(dict.fromkeys(reason for item in unmet for reason in item["assumptions"]))
    assert len(reasons) == 4  # overlap; a kink; the climb is lost in rounding; no sample is above 1/2
    assert max(len(item["assumptions"]) for item in unmet) == 2
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    lines = [line for line in shown.splitlines() if "│" in line]
    assert len(lines) == len(told)
    for number, reason in enumerate(reasons, start=1):
        assert f"({number}) Not met: {reason}." in shown.replace("\n", " ").replace("  ", " ")
    for item, line in zip(told, lines, strict=True):
        marks = ", ".join(str(reasons.index(reason) + 1) for reason in item["assumptions"] if item["holds"] is None)
        assert line.split("│")[-1].strip() == (f"assumption not met ({marks})" if marks else "holds")
    assert "nan" not in lines[-1]  # Theorem 3 has no sample to speak of
    assert lines[-1].count("│ - ") == 3


def test_ties_are_not_called_wrong(tmp_path: Path, capsys: Capture) -> None:
    np.savez(tmp_path / "ties.npz", logits=np.zeros((3, 2)), labels=np.zeros(3, dtype=np.int64))
    assert main(["certify", str(tmp_path / "ties.npz")]) == 0
    assert "overlap: not every sample is right with a positive margin" in capsys.readouterr().out


def test_b8_needs_the_training_set_and_its_absence_is_told(run: Path, capsys: Capture) -> None:
    assert main(["certify", str(run), "--radius", "0.1", "--split", "test"]) == 0
    assert "B.8 is left out" in capsys.readouterr().out
    assert main(["certify", str(run), "--radius", "0.1", "--split", "test", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert "B.8 is left out" in told["notes"][0]
    assert not any(item["name"].startswith("B.8") for item in told["certificates"])


def test_a_statement_that_fails_has_exit_code_1(sure: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    wrong = [certificate("2 <= 1", measured=2, bound=1), certificate("1 <= 2", measured=1, bound=2)]
    monkeypatch.setattr("surefoot.theory.calibration_certificates", lambda *_, **__: wrong)
    assert main(["certify", str(sure)]) == 1
    assert "do not hold, 1 of 2: please report this" in capsys.readouterr().err
    assert main(["certify", str(sure), "--json"]) == 1
    told = capsys.readouterr()
    assert json.loads(told.out)["failed"] == 1
    assert "please report this" in told.err


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--labels", "y"], "`--labels` names an array of a file, and a run has none"),
        (["--batch", "0", "--rho", "0.1"], "`--batch` must be at least 1, got 0."),
        (["--radius", "-1"], "`--radius` must be at least 0 and finite, got -1.0."),
        (["--radius", "nan"], "`--radius` must be at least 0 and finite, got nan."),
        (["--rho", "0"], "`--rho` must be positive and finite, got 0.0."),
        (["--rho", "0.1", "--gamma", "2.1"], "`--gamma` must lie in [0, 2], got 2.1."),
        (["--worst", "-1"], "`--worst` must be at least 0, got -1."),
        (["--norm", "linf"], "`--norm` needs `--radius`."),
        (["--gamma", "1", "--batch", "3"], "`--gamma` needs `--rho`."),
    ],
)
def test_bad_options_of_a_run_are_refused_before_any_work(
    run: Path, options: list[str], why: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("surefoot.runs.restored_training.restored_training", lambda path: pytest.fail("work was begun"))
    assert main(["certify", str(run), *options]) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    "option",
    ["--split=train", "--norm=l2", "--batch=64", "--rho=0.1", "--radius=0.1", "--gamma=1"],
)
def test_options_of_a_run_are_refused_for_a_file(sure: Path, option: str, capsys: Capture) -> None:
    assert main(["certify", str(sure), option]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert f"`{option.split('=')[0]}` needs a model: give a run, not a file." in told.err
