"""The wheel, in an empty environment with the core dependencies only."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

import surefoot

ROOT = Path(__file__).parents[1]


def run(*command: str | Path, folder: Path) -> str:
    """What a command says, run elsewhere than in the repository and without its sources on the path."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SUREFOOT_DATA")}
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_installs_and_runs_with_core_dependencies_only(tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--outdir", tmp_path / "dist", ROOT, folder=tmp_path)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    (source,) = (tmp_path / "dist").glob("*.tar.gz")
    assert wheel.name == f"surefoot-{surefoot.__version__}-py3-none-any.whl"
    with ZipFile(wheel) as opened:
        names = set(opened.namelist())
    study = "surefoot_papers/too_sharp/coupling/study.toml"
    assert {"surefoot/py.typed", "surefoot_papers/py.typed", "surefoot/report/page.html", study} <= names
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"surefoot", "surefoot_papers"}
    with tarfile.open(source) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "LICENSE", "README.md", f"src/{study}", "tests/test_wheel.py"} <= inside

    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel, folder=tmp_path)
    command = python.with_name("surefoot")
    assert run(command, "--version", folder=tmp_path).split()[1] == surefoot.__version__

    found = {row["what"]: row for row in json.loads(run(command, "doctor", "--json", folder=tmp_path))}
    assert found["surefoot"]["detail"].startswith(f"{surefoot.__version__},")
    extras = {what.removeprefix("extra "): row for what, row in found.items() if what.startswith("extra ")}
    assert {"report", "parquet", "data", "onnx", "pandas", "polars", "datasets", "torchmetrics", "dev"} <= set(extras)
    assert extras["polars"]["state"] == "absent"
    assert extras["polars"]["detail"] == "pip install 'surefoot[polars]' adds polars, pyarrow"
    assert not [row for row in found.values() if row["state"] == "broken"]

    np.savez(tmp_path / "mine.npz", logits=np.array([[2.0, 0.0]] * 40), labels=np.array([0, 0, 0, 1] * 10))
    said = json.loads(run(command, "evaluate", "mine.npz", "--json", folder=tmp_path))
    assert said["ece"]["value"] == pytest.approx(1 / (1 + np.exp(-2)) - 0.75)
    typed = "import importlib.resources as r; assert (r.files('surefoot') / 'py.typed').is_file()"
    run(python, "-c", typed, folder=tmp_path)
    listed = run(command, "list", "studies", folder=tmp_path)
    assert {"coupling", "sam-versus-sgd", "margin-aware"} <= set(listed.split())
    shown = "import surefoot as sf; print(sf.evaluate([[2., 0.], [0., 1.]] * 50, [0, 1] * 50))"
    assert "0.1941" in run(python, "-c", shown, folder=tmp_path)
    shutil.rmtree(tmp_path / "empty")  # more than a gigabyte, which pytest would keep
