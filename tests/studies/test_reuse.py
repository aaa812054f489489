import json
import shutil
from pathlib import Path

import pytest

from surefoot.cli import main
from surefoot.runs.folder import RunFolder
from surefoot.studies.engines.engine import Trial
from surefoot.studies.folder import StudyFolder
from surefoot.studies.reuse import made_elsewhere, take
from surefoot.studies.study import read_study

STUDY = """
title = "Why?"
analysis = "surefoot_papers.sam_calibration.methods"
[scales.digits]
about = "Small."
seeds = SEEDS
[scales.digits.run]
budget = 2
data = { name = "digits", num_train = 100 }
model = { name = "mlp", widths = [8] }
observers = { margins = false, curvature = false }
[[scales.digits.grid]]
optimizer = { name = "gd", lr = 0.1 }
"""
PLAIN = ["--workers", "1", "--no-page", "--json"]


def write(name: str, seeds: str) -> None:
    Path(f"{name}.toml").write_text(STUDY.replace("SEEDS", seeds))


def runs(folder: str) -> dict[str, bytes]:
    return {run.name: run.content()[0] for run in StudyFolder(Path(folder)).runs}


def test_what_another_study_has_made_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write("one", "[0, 1]")
    write("two", "[1, 2]")
    assert main(["study", "one.toml", "--out", "a", *PLAIN]) == 0
    assert main(["report", "a", "--archive", "--out", "archived", "--no-page"]) == 0
    capsys.readouterr()
    assert main(["study", "two.toml", "--out", "b", "--reuse", "a", "--dry-run", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert (planned["num_runs"], planned["num_to_do"]) == (2, 1)
    assert not Path("b").exists()

    for source in ("a", "archived"):  # a live folder, and one with compressed rows
        shutil.rmtree("b", ignore_errors=True)
        assert main(["study", "two.toml", "--out", "b", "--reuse", source, *PLAIN]) == 0
        told = capsys.readouterr()
        assert "1 runs of the study have ended elsewhere" in told.err
        assert "2 runs, 1 to do" in told.err
        assert json.loads(told.out)["num_runs"] == {"done": 2}
        (shared,) = runs(source).keys() & runs("b").keys()
        assert runs("b")[shared] == runs(source)[shared]
        assert len(runs("b")) == 2

    for name in ("one", "two"):  # nothing is to do: the data is not needed
        Path(f"{name}.toml").write_text(
            Path(f"{name}.toml").read_text().replace('"digits", num_train', '"cifar10-5k", num_train')
        )
    monkeypatch.setenv("SUREFOOT_DATA", str(tmp_path / "nowhere"))
    (planned,) = [spec for spec in read_study("two.toml").specs if spec.seed == 1]
    for folder in Path("a/runs").iterdir():
        record = json.loads((folder / "run.json").read_text())
        if record["seed"] == 1:
            record["spec"]["data"]["name"] = "cifar10-5k"
            record["id"] = planned.id
            (folder / "run.json").write_text(json.dumps(record))
            folder.rename(folder.with_name(planned.id))
    Path("two.toml").write_text(Path("two.toml").read_text().replace("[1, 2]", "[1]"))
    assert main(["study", "two.toml", "--out", "d", "--reuse", "a", "--dry-run"]) == 0
    told = capsys.readouterr()
    assert "1 runs of the study have ended elsewhere and would be copied from there" in told.err
    assert "There is nothing to do." in told.err

    assert main(["study", "two.toml", "--out", "c", "--reuse", "nowhere", *PLAIN]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_a_run_that_was_begun_here_is_left_alone_and_half_a_copy_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write("one", "[0, 1]")
    assert main(["study", "one.toml", "--out", "a", *PLAIN]) == 0
    here = Path("b/runs")
    trials = [Trial(RunFolder(path).spec, here / path.name) for path in sorted(Path("a/runs").iterdir())]
    begun = trials[0].folder
    begun.mkdir(parents=True)
    (begun / "run.json").write_text(json.dumps({**RunFolder(Path("a/runs") / begun.name).record, "status": "running"}))
    made = made_elsewhere(trials, [Path("a")])
    assert set(made) == {trials[1].id}

    def full(*_: object, **__: object) -> None:
        (here / f".{trials[1].id}.part").mkdir()
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copytree", full)
        with pytest.raises(OSError, match="disk full"):
            take(trials, made)
    assert [path.name for path in here.iterdir()] == [begun.name]
    take(trials, made)
    assert RunFolder(trials[1].folder).ended
    assert RunFolder(begun).status == "running"
