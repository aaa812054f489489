import gzip
import json
from pathlib import Path

import pytest

from surefoot.cli import main
from surefoot.runs.folder import RunFolder
from surefoot.studies.archive import RECORDS, ROWS, read_archive, write_archive
from surefoot.studies.folder import StudyFolder

STUDY = """
title = "Why?"
analysis = "surefoot.studies.comparison"
[scales.small]
about = "Small."
seeds = [0, 1]
run = { budget = 3, data = { name = "digits", num_train = 50 }, model = { name = "mlp", widths = [4] } }
[[scales.small.grid]]
optimizer = { name = "sgd", lr = [0.1, 0.2] }
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    (folder / "why.toml").write_text(STUDY)
    assert main(["study", str(folder / "why.toml"), "--out", str(folder / "study"), "--no-page"]) == 0
    return folder / "study"


def test_an_archive_holds_every_byte_of_the_rows(study: Path, tmp_path: Path) -> None:
    runs = StudyFolder(study).runs
    write_archive(runs, tmp_path)
    kept = read_archive(tmp_path)
    assert [run.name for run in kept] == [run.name for run in runs]
    for run, copy in zip(runs, kept, strict=True):
        assert copy.content() == run.content()
        assert copy.record == run.record
        assert copy.measured() == run.measured() is not None
        assert copy.spec == run.spec
    lines = gzip.decompress((tmp_path / ROWS).read_bytes()).splitlines()
    assert json.loads(lines[0])["run"] == runs[0].name


def test_the_same_runs_give_the_same_bytes(study: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    write_archive(StudyFolder(study).runs, tmp_path / "a")
    write_archive(read_archive(tmp_path / "a"), tmp_path / "b")
    for name in (RECORDS, ROWS):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_an_archive_has_a_few_files_and_the_tables_of_the_study(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "kept"
    assert main(["report", str(study), "--out", str(out), "--archive", "--no-page"]) == 0
    assert {path.name for path in out.iterdir()} == {"study.json", RECORDS, ROWS, "outcome.json", "tables.md"}
    assert (out / "tables.md").read_text() == (study / "tables.md").read_text()
    assert main(["report", str(out), "--no-page"]) == 0  # which stands alone
    assert (out / "tables.md").read_text() == (study / "tables.md").read_text()


def test_runs_of_an_archive_can_be_reused_but_not_done_in_place(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, again, file = tmp_path / "kept", tmp_path / "again", str(study.parent / "why.toml")
    assert main(["report", str(study), "--out", str(out), "--archive", "--no-page"]) == 0
    assert main(["study", file, "--out", str(again), "--reuse", str(out), "--no-page"]) == 0
    assert "4 runs of the study have ended elsewhere and are copied" in capsys.readouterr().err
    for run in StudyFolder(study).runs:
        assert RunFolder(again / "runs" / run.name).content() == run.content()
    assert main(["study", file, "--out", str(out), "--no-page"]) == 2
    assert "is an archive" in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["cut", "lost", "changed"])
def test_rows_that_are_damaged_are_named_and_left_out(study: Path, tmp_path: Path, damage: str) -> None:
    (tmp_path / "study.json").write_bytes((study / "study.json").read_bytes())
    write_archive(StudyFolder(study).runs, tmp_path)
    path = tmp_path / ROWS
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-20])
    elif damage == "lost":
        path.unlink()
    else:
        lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
        path.write_bytes(gzip.compress(b"".join(lines[1:])))
    damaged = [run.damaged for run in StudyFolder(tmp_path).runs]
    assert damaged == ([True, False, False, False] if damage == "changed" else [True] * 4)


def test_a_record_that_is_none_is_named(study: Path, tmp_path: Path) -> None:
    write_archive(StudyFolder(study).runs, tmp_path)
    (tmp_path / RECORDS).write_text((tmp_path / RECORDS).read_text() + "{}\n")
    with pytest.raises(ValueError, match=r"Line 5 of .*runs\.jsonl is not the record of a run"):
        read_archive(tmp_path)
