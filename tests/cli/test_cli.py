import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from surefoot.cli import main
from surefoot.files import locked
from surefoot.runs.folder import RunFolder
from surefoot.runs.spec import RunSpec
from surefoot.studies.claim import Verdict

SPEC = """
budget = 20
optimizer = { name = "gd", lr = 0.5 }
data = { name = "digits", num_train = 100 }
model = { name = "mlp", widths = [8] }
schedule = { every = 5, per_decade = 0 }
"""
STUDY = """
title = "Why?"
analysis = "surefoot_papers.too_sharp.coupling"
[scales.digits]
about = "Small."
seeds = [0]
[scales.digits.run]
budget = 60
data = { name = "digits", num_train = 100, noisy_labels = 0.3 }
model = { name = "mlp", widths = [8] }
schedule = { every = 5, per_decade = 4 }
[[scales.digits.grid]]
optimizer = { name = "gd", lr = [0.5, 1.0, 1e30] }
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "spec.toml"
    path.write_text(SPEC)
    return path


def test_train_then_train_again_then_report(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "spec.toml", "--json", "--set", "optimizer.lr=0.25", "--set", "seed=3"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["status"] == "done"
    assert found["spec"]["optimizer"]["lr"] == 0.25
    assert found["seed"] == 3
    assert found["last"]["step"] == 20
    assert main(["train", "spec.toml", "--set", "optimizer.lr=0.25", "--set", "seed=3"]) == 0
    told = capsys.readouterr()
    assert "nothing was computed" in told.err
    assert "ggn_sharpness" in told.out
    with (Path(found["path"]) / "metrics.jsonl").open("a") as file:
        file.write('{"step": 25, "tr')
    assert main(["report", found["path"], "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["last"]["step"] == 20
    assert "was skipped" in told.err


def test_a_diverged_run_has_exit_code_1(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "spec.toml", "--set", "optimizer.lr=1e30"]) == 1
    assert "diverged" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "absent.toml"], "There is no file absent.toml."),
        (["train", "broken.toml"], "broken.toml is not TOML"),
        (["train", "spec.toml", "--set", "optimizer.name=sdg"], "Unknown optimizer 'sdg'. Did you mean 'sgd'?"),
        (["train", "spec.toml", "--set", "optimizer.lrr=1"], "Unknown key in [optimizer] 'lrr'. Did you mean 'lr'?"),
        (["train", "spec.toml", "--set", "optimizer.lr=-1"], "`optimizer.lr` must be positive and finite, got -1."),
        (["train", "spec.toml", "--set", "budget=many"], "`budget` must be a whole number, got 'many'."),
        (["train", "spec.toml", "--set", "data.num_train=5000"], "`num_train` must lie in 1..1796, got 5000."),
        (["train", "spec.toml", "--set", "model.widths=[0]"], "`widths` must be at least 1 each, got [0]."),
        (["train", "spec.toml", "--set", "observers.curvature.tolerance=-1"], "`tolerance` must be positive, got -1."),
        (["report", "folder", "--archive"], "`--archive` needs `--out`"),
        (["train", "spec.toml", "--out", "spec.toml/below"], "Not a directory"),
        (["report", "."], "is not a study folder"),
        (["report", "nowhere"], "`folder` does not exist: nowhere."),
        (["report", "folder/run.json"], "give the folder, folder."),
        (["sharpness", "nowhere"], "`run` does not exist: nowhere."),
        (["sharpness", "folder/run.json"], "give the folder, folder."),
        (["certify", "nowhere"], "`path` does not exist: nowhere."),
        (["certify", "nowhere/checkpoint.safetensors"], "`path` does not exist: nowhere/checkpoint.safetensors."),
        (["certify", "folder/run.json"], "give the folder, folder."),
        (["certify", "folder/metrics.jsonl"], "give the folder, folder."),
        (["study", "copling"], "Unknown study 'copling'. Did you mean 'coupling'?"),
        (["study", "coupling", "--scale", "digit"], "Unknown scale 'digit'. Did you mean 'digits'?"),
        (["study", "coupling", "--workers", "0"], "`workers` must be at least 1, got 0."),
        (["study", "coupling", "--out", "spec.toml"], "Not a directory"),
        (["report", "folder"], "folder is not a run folder"),
    ],
)
def test_a_bad_request_has_exit_code_2_and_one_sentence(
    spec: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (spec.parent / "broken.toml").write_text("budget = = 3")
    (spec.parent / "folder").mkdir()
    if "--archive" not in arguments:
        (spec.parent / "folder" / "run.json").write_text("not JSON")
        (spec.parent / "folder" / "metrics.jsonl").touch()
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert message in told.err
    assert told.err.count("\n") == 1
    assert "Traceback" not in told.err


def test_a_run_that_another_process_writes_is_a_bad_request(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path("runs/train") / RunSpec.from_toml(spec).id
    with locked(path):
        assert main(["train", "spec.toml"]) == 2
    assert capsys.readouterr().err == f"surefoot: Being written by another process: {path}.\n"


def test_a_run_with_an_unreadable_record_starts_again(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path("runs/train") / RunSpec.from_toml(spec).id
    path.mkdir(parents=True)
    (path / "run.json").write_text("{")
    assert main(["train", "spec.toml"]) == 0
    assert "were damaged: it starts again" in capsys.readouterr().err


def test_a_study_in_another_ones_folder_or_in_use_is_a_bad_request(
    spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = {"study": "other", "scale": "big", "title": "", "about": "", "outcome": "coupling", "runs": {}}
    Path("there").mkdir()
    Path("there/study.json").write_text(json.dumps(record))
    assert main(["study", "coupling", "--out", "there"]) == 2
    assert "there holds the study other at scale big" in capsys.readouterr().err
    Path("why.toml").write_text(STUDY)
    with locked(Path("busy")):
        assert main(["study", "why.toml", "--out", "busy"]) == 2
    assert "Being written by another process: busy" in capsys.readouterr().err


def test_data_that_is_not_there_is_a_bad_request(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SUREFOOT_DATA", "")
    assert main(["study", "coupling", "--scale", "cifar-small"]) == 2
    assert "Set SUREFOOT_DATA to the folder that holds it." in capsys.readouterr().err


def test_a_wrong_flag_or_verb_has_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["trane"], ["train"], ["list", "optimizer"], ["study", "coupling", "--rerun", "some"]):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2


@pytest.mark.slow
def test_study_report_archive(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("why.toml").write_text(STUDY)
    assert main(["study", "why.toml", "--json", "--workers", "2"]) == 0
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert found["num_runs"] == {"done": 2, "diverged": 1}
    assert "exploded" in found["not_done"][0]["reason"]
    cells = [cell for table in found["tables"] for row in table["rows"] for cell in row if isinstance(cell, dict)]
    assert cells
    assert all(cell["n"] <= 2 for cell in cells)
    assert {claim["verdict"] for claim in found["claims"]} <= {str(verdict) for verdict in Verdict}
    assert "3 to do" in told.err
    root = Path("runs/why/digits")
    first = {path: path.read_bytes() for path in root.iterdir() if path.is_file()}
    assert {path.name for path in first} >= {
        "study.json",
        "outcome.json",
        "tables.md",
        "report.html",
        "correlation.csv",
    }
    assert main(["study", "why.toml", "--json"]) == 0
    told = capsys.readouterr()
    assert "0 to do" in told.err
    assert json.loads(told.out) == found
    assert {path: path.read_bytes() for path in root.iterdir() if path.is_file()} == first
    assert main(["report", str(root), "--out", "archive", "--archive"]) == 0
    shown = capsys.readouterr().out
    assert "Pearson r" in shown
    assert "Report: " in shown
    assert main(["report", "archive", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == found
    assert Path("archive/report.html").read_bytes() == (root / "report.html").read_bytes()
    assert not list(Path("archive").rglob("*.safetensors"))


def test_list_holds_every_registry(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    held = json.loads(capsys.readouterr().out)
    kinds = {"studies", "optimizers", "losses", "models", "ensembles", "datasets", "metrics", "observers", "posthoc"}
    assert set(held) == kinds
    assert all(description for entries in held.values() for description in entries.values())
    assert "coupling" in held["studies"]
    assert main(["list", "optimizers"]) == 0
    assert "adamw" in capsys.readouterr().out


@pytest.mark.slow  # imports every package of every extra
def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    states = {row["what"]: row["state"] for row in json.loads(capsys.readouterr().out)}
    assert states["torch"] == "ok"
    assert "extra report" in states


def test_version_and_bare_call(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("surefoot 0.")
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 0
    assert "study" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["study", "--help"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys; from surefoot.cli import main\n"
        f"try: main({arguments})\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'sklearn', 'scipy', 'matplotlib', 'jinja2'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.slow
def test_ctrl_c_leaves_a_run_that_the_same_command_finishes(spec: Path) -> None:
    command = [sys.executable, "-m", "surefoot.cli", "train", "spec.toml", "--set", "budget=4000", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ)
    rows = None
    deadline = time.monotonic() + 60
    while not rows and time.monotonic() < deadline:
        time.sleep(0.05)
        rows = [path for path in spec.parent.glob("runs/train/*/metrics.jsonl") if path.stat().st_size]
    process.send_signal(signal.SIGINT)
    out, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    stopped = json.loads(out)
    assert stopped["status"] == "interrupted"
    assert 0 < stopped["gradients"] < 4000
    assert b"goes on from the last checkpoint" in told
    again = subprocess.run(command, capture_output=True, check=True)
    assert json.loads(again.stdout)["status"] == "done"


def test_sharpness_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text(
        'budget = 3\noptimizer = {name = "gd", lr = 0.1}\ndata = {name = "digits", num_train = 100}\n'
        'model = {name = "mlp", widths = [5]}\n'
    )
    assert main(["train", str(spec), "--out", str(tmp_path / "runs")]) == 0
    (run,) = (tmp_path / "runs").iterdir()
    (last,) = [row for row in RunFolder(run).rows()[0] if row["step"] == 3]
    capsys.readouterr()
    assert main(["sharpness", str(run), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    ggn, hessian = told["eigenvalues"]
    assert told["step"] == 3
    assert told["two_over_lr"] == pytest.approx(20)
    assert ggn["certified"]
    assert ggn["value"] == pytest.approx(last["train/ggn_sharpness"], rel=0.02)
    assert hessian["matrix"] == "hessian"
    arguments = ["sharpness", str(run / "checkpoint.safetensors"), "--matrix", "ggn", "--split", "test"]
    assert main([*arguments, "--samples", "50", "--layers"]) == 0
    shown = capsys.readouterr().out
    assert "layers.1" in shown
    assert "n = 50" in shown
    for bad, why in (
        ([str(tmp_path)], "not a run folder"),
        ([str(run), "--samples", "101"], "`num_samples` must lie in 1..100"),
        ([str(run), "--layers", "--num", "2"], "one eigenvalue per layer"),
        ([str(run), "--tolerance", "0"], "`tolerance` must be positive"),
    ):
        assert main(["sharpness", *bad]) == 2
        assert why in capsys.readouterr().err
    (run / "checkpoint.safetensors").unlink()
    assert main(["sharpness", str(run)]) == 2
    assert "an archived run has no weights" in capsys.readouterr().err
