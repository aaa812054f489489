"""Extras that are there, missing, broken, or end the process that imports them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from surefoot.cli._importable import import_errors


def installed(folder: Path, package: str, *, module: str, source: str, requires: tuple[str, ...] = ()) -> None:
    """A package as pip leaves it: a module and its metadata."""
    about = folder / f"{package.replace('-', '_')}-1.5.dist-info"
    about.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {package}", "Version: 1.5", *(f"Requires-Dist: {r}" for r in requires)]
    (about / "METADATA").write_text("\n".join(lines) + "\n")
    (about / "top_level.txt").write_text(f"{module}\n")
    if source:
        (folder / f"{module}.py").write_text(source)


def test_every_extra_with_what_is_missing_and_what_is_broken(tmp_path: Path) -> None:
    installed(tmp_path, "well-made", module="well_made", source="print('noise on stdout')\n")
    installed(tmp_path, "rotten", module="gone_bad", source="import a_part_that_is_gone\n")
    installed(tmp_path, "deadly", module="deadly", source="import os\nos._exit(3)\n")
    wanted = (
        "torch>=2.6",
        'well-made>=1; extra == "good"',
        'well-made>=1; extra == "half"',
        'nowhere-to-be-found[x]<2; python_version > "3" and extra == "half"',
        'rotten; extra == "bad"',
        'deadly==1.5; extra == "bad"',
        'well-made; extra == "bad"',
        'surefoot[good,bad]; extra == "all"',
    )
    installed(tmp_path, "surefoot", module="surefoot", source="", requires=wanted)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "surefoot.cli", "doctor", "--json"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    rows = {row["what"]: (row["state"], row["detail"]) for row in json.loads(done.stdout)}
    extras = {what.removeprefix("extra "): row for what, row in rows.items() if what.startswith("extra ")}
    assert extras == {
        "good": ("ok", "has well-made 1.5"),
        "half": ("absent", "pip install 'surefoot[half]' adds nowhere-to-be-found; has well-made 1.5"),
        "bad": (
            "broken",
            "rotten does not import: 1.5, ModuleNotFoundError: No module named 'a_part_that_is_gone'; "
            "deadly does not import: 1.5, the import ended the process with code 3; has well-made 1.5",
        ),
    }
    assert rows["torch"][0] == "ok"
    assert done.returncode == 1


def test_an_import_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "endless.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = import_errors(["json", "endless", "no_such_module"], seconds=2)
    assert found["endless"] == "the import took more than 2 seconds"
    assert set(found) == {"endless", "no_such_module"}


def test_the_current_folder_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "only_here.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert "ModuleNotFoundError" in import_errors(["only_here"])["only_here"]
