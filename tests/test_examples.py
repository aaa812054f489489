"""Every example runs as it is, in a folder of its own; each asserts what it prints."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def test_there_are_examples_and_they_are_short() -> None:
    assert {"plain_pytorch", "lightning_loop", "huggingface"} <= {path.stem for path in EXAMPLES}
    for path in EXAMPLES:
        lines = path.read_text().splitlines()
        assert len(lines) < 60, path.name
        assert any(line.startswith("assert ") for line in lines), path.name


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs(path: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
