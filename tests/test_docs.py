"""What README and docs say can be run: Python blocks, commands, specs, and the site itself."""

import importlib.util
import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from surefoot.cli import parsed
from surefoot.cli.listing import _registry
from surefoot.runs.spec import RunSpec
from surefoot.studies.analysis import load_analysis
from surefoot.studies.study import read_study

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# A comment before a block may say that it is not run and why, or which modules it needs; `<!-- given` has code that
# the page's reader need not see
PIECE = re.compile(
    r"<!-- (?P<key>given|needs:|not run:)(?P<note>.*?)-->|^(?P<indent> *)```(?P<kind>\w*)\n(?P<text>.*?)^ *```$",
    flags=re.DOTALL | re.MULTILINE,
)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(path: Path, *kinds: str) -> Iterator[tuple[int, str]]:
    """Line and text of each code block of these kinds that is not marked as not run, and what was `given` for them."""
    page, note = path.read_text(), ""
    for piece in PIECE.finditer(page):
        line = page.count("\n", 0, piece.start()) + 1
        if piece["key"] == "given":
            if "python" in kinds:
                yield line, piece["note"]
        elif piece["key"]:
            note = piece["key"] + piece["note"]
        else:
            if piece["kind"] in kinds and not note.startswith("not run"):
                yield line, f"# {note}\n" + textwrap.dedent(piece["text"])
            note = ""


@pytest.mark.parametrize("path", [path for path in PAGES if "```python" in path.read_text()], ids=name)
def test_python_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    absent = set()
    for line, text in blocks(path, "python"):
        needed = re.match(r"# needs: (.*)", text)
        lacking = {module for module in needed[1].split() if not _is_there(module)} if needed else set()
        absent |= lacking
        if not lacking:
            exec(compile("\n" * line + text.partition("\n")[2], str(path), "exec"), names)
    if absent:
        pytest.skip(f"all but the blocks that need {', '.join(sorted(absent))}")


def _is_there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def test_few_blocks_are_not_run() -> None:
    found = [name(path) for path in PAGES for _ in re.findall("<!-- not run:", path.read_text())]
    assert len(found) <= 1, found


def commands() -> list[tuple[str, int, str]]:
    lines = [
        (name(path), number, line.strip().removeprefix("$ "))
        for path in PAGES
        for number, text in blocks(path, "", "sh", "console")
        for line in text.splitlines()
    ]
    return [
        (path, number, part.strip())
        for path, number, line in lines
        for part in re.split(r"&&|(?<!\|)\|(?!\|)", line)
        if part.strip().startswith("surefoot ")
    ]


def test_every_command_in_a_block_is_understood(capsys: pytest.CaptureFixture[str]) -> None:
    found = commands()
    assert len({command for _, _, command in found}) > 40
    for command in sorted({command for _, _, command in found}):
        try:
            parsed(shlex.split(command, comments=True)[1:])
        except SystemExit:
            places = [f"{path}:{number}" for path, number, each in found if each == command]
            pytest.fail(f"{command}\n{places}\n{capsys.readouterr().err}")


def test_every_command_in_the_text_has_its_flags(capsys: pytest.CaptureFixture[str]) -> None:
    said = {
        (words[1], word.partition("=")[0])
        for path in PAGES
        for code in re.findall(r"`(surefoot [a-z][^`\n]*)`", path.read_text())
        for words in [code.split()]
        for word in [*words[2:], "--help"]
        if word.startswith("--")
    }
    assert len(said) > 10
    for verb in sorted({verb for verb, _ in said}):
        with pytest.raises(SystemExit):
            parsed([verb, "--help"])
        offered = capsys.readouterr().out
        assert f"surefoot {verb}" in offered, f"no such verb: {verb}"
        assert not [flag for told, flag in said if told == verb and flag not in offered], verb


@pytest.mark.parametrize("path", [path for path in PAGES if "```toml" in path.read_text()], ids=name)
def test_specs_are_read(path: Path, tmp_path: Path) -> None:
    for _, text in blocks(path, "toml"):
        tree = tomllib.loads(text)
        if "scales" in tree:
            (tmp_path / "own.toml").write_text(text)
            study = read_study(str(tmp_path / "own.toml"))
            if not study.analysis.endswith(".py"):  # which a test of its own runs
                assert [load_analysis(study.analysis).check(spec) for spec in study.specs]
        else:
            RunSpec.from_dict({"budget": 1, "optimizer": {"name": "sgd", "lr": 0.1}, **tree})


@pytest.fixture(scope="module")
def hooks() -> Iterator[ModuleType]:
    pytest.importorskip("mkdocs", reason="is in the extra docs")
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        yield importlib.import_module("hooks")
    finally:
        sys.path.remove(str(ROOT / "docs"))


def test_every_registered_name_has_a_page(hooks: ModuleType) -> None:
    pages = hooks.pages()
    for kind in ("metrics", "losses", "optimizers", "posthoc", "ensembles"):
        for method, thing in _registry(kind).items():
            folders = ["losses", "objectives"] if kind == "losses" else [kind]
            found = [pages[path] for folder in folders if (path := f"methods/{folder}/{method}.md") in pages]
            assert len(found) == 1, f"{kind}/{method}"
            ours = not thing.__module__.startswith("torch.")
            assert (inspect.getdoc(thing) if ours else f"torch.optim.{thing.__name__}").splitlines()[0] in found[0]  # type: ignore[union-attr]
    assert "| `rho` | `float` | `0.05` |" in pages["methods/optimizers/csam.md"]
    assert "| focal | 0.979 |" in pages["methods/losses/focal.md"]  # results/benchmarks
    assert "| `swag` | `SWAG` |" in pages["methods/ensembles/swag.md"]  # docs/ensembles.md


def test_doctests_become_blocks(hooks: ModuleType) -> None:
    assert hooks.fenced("Says.\n\n>>> 1 + 1\n2\n\nMore.") == "Says.\n\n\n```pycon\n>>> 1 + 1\n2\n```\n\n\nMore."


@pytest.mark.slow
def test_the_site_builds_and_asks_for_nothing_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="is in the extra docs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loads = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")
    made = sorted((tmp_path / "site").rglob("*.html"))
    assert len(made) > 100
    elsewhere = {found for path in made for found in loads.findall(path.read_text()) if 'rel="canonical"' not in found}
    assert not elsewhere


@pytest.mark.slow
def test_extending_as_the_page_says_passes_the_tests_over_the_tables(tmp_path: Path) -> None:
    for folder in ("src", "tests", "benchmarks", "docs", "results/benchmarks"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    page = ROOT / "docs" / "extend.md"
    for _, text in blocks(page, "python", "toml"):
        (path,) = re.findall(r"^# ((?:src|mine)/.*)$", text, flags=re.MULTILINE)
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    for _, text in blocks(page, "diff"):
        ((path, table),) = re.findall(r"^@@ (\S+) (\S+)$", text, flags=re.MULTILINE)
        added = re.findall(r"^\+(.*)$", text, flags=re.MULTILINE)
        imported = "".join(f"{line}\n" for line in added if line.startswith("from "))
        entry = "\n".join(line for line in added if not line.startswith("from "))
        before = (tmp_path / path).read_text()
        with_entry = re.sub(rf"^({table}: .*\{{)$", rf"\1\n{entry}", before, flags=re.MULTILINE)
        (tmp_path / path).write_text(with_entry.replace("\nfrom ", f"\n{imported}from ", 1))
    tests = "metrics runs/test_objectives.py " + " ".join(
        f"contracts/test_{kind}.py" for kind in ("losses", "metrics", "optimizers")
    )
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += [*(f"tests/{part}" for part in tests.split()), "-k", "poly or overconfidence or short_steps or but_the"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    for name in ("poly]", "overconfidence]", "short_steps]", "but_the_extreme"):
        assert re.search(rf"PASSED .*{re.escape(name)}", done.stdout), name


@pytest.mark.slow
def test_the_study_with_an_analysis_of_its_own_runs(tmp_path: Path) -> None:
    page = ROOT / "docs" / "extend.md"
    own = {m[1]: text for _, text in blocks(page, "python", "toml") if (m := re.search(r"^# mine/(\S+)", text, re.M))}
    assert set(own) == {"poly.toml", "gap.py"}
    for name, text in own.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "surefoot", "study", str(tmp_path / "poly.toml"), "--no-page", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert [claim["id"] for claim in shown["claims"]] == ["gap/focal"]
    assert shown["claims"][0]["n"] == [2]
    assert [table["name"] for table in shown["tables"]] == ["gap", "criteria"]
