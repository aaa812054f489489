import json
import re
from pathlib import Path
from typing import Any

import pytest

from surefoot.report.study import write_tables
from surefoot.runs.folder import RunFolder
from surefoot.runs.run import run
from surefoot.runs.spec import RunSpec
from surefoot.runs.stored import StoredRun
from surefoot.runs.trajectory import Row
from surefoot.studies.archive import write_archive
from surefoot.studies.folder import StudyFolder
from surefoot.studies.study import read_study
from surefoot.studies.study_outcome import study_outcome
from surefoot_papers.reproduce import Likeness, likeness, main, shortest

RESULTS = Path(__file__).parents[2] / "results"
RECORDED = sorted(path.parent for path in RESULTS.glob("*/*/study.json"))
NAMES = [f"{path.parent.name}/{path.name}" for path in RECORDED]
AGAIN = "python -m surefoot_papers.recorded results"
SPEC = {
    "optimizer": {"name": "sgd", "lr": 0.1},
    "budget": 4,
    "batch_size": 10,
    "data": {"name": "digits", "num_train": 50},
    "model": {"name": "mlp", "widths": [4]},
}


@pytest.mark.parametrize("folder", RECORDED, ids=NAMES)
def test_every_recorded_run_is_one_that_its_study_makes_today(folder: Path) -> None:
    study = StudyFolder(folder)
    assert (study.record["study"], study.record["scale"]) == (folder.parent.name, folder.name)
    planned = {spec.id for spec in read_study(study.record["study"], scale=study.record["scale"]).specs}
    assert set(study.record["runs"]) <= planned
    names = {run.name for run in study.runs}
    assert names == planned or "partial" in (folder / "README.md").read_text()
    assert all(run.spec.id == run.name for run in study.runs)
    assert all(run.ended or run.status == "failed" for run in study.runs)


@pytest.mark.parametrize("folder", RECORDED, ids=NAMES)
def test_recorded_results_name_the_command_that_makes_them(folder: Path) -> None:
    command = f"surefoot study {folder.parent.name} --scale {folder.name}"
    assert command in (folder / "tables.md").read_text()
    assert command in " ".join((folder / "README.md").read_text().split())


@pytest.mark.slow
@pytest.mark.parametrize("folder", RECORDED, ids=NAMES)
def test_recorded_tables_are_those_of_the_recorded_rows(folder: Path, tmp_path: Path) -> None:
    write_tables(tmp_path, study_outcome(StudyFolder(folder)), archive=True)
    now, then = (json.loads((path / "outcome.json").read_text()) for path in (tmp_path, folder))
    assert near(now) == then, AGAIN


@pytest.mark.slow
@pytest.mark.parametrize("folder", RECORDED, ids=NAMES)
def test_recorded_pages_of_tables_say_what_is_said_today(folder: Path, tmp_path: Path) -> None:
    write_tables(tmp_path, study_outcome(StudyFolder(folder)), archive=True)
    now, then = (re.sub(r"[-+]?\d[\d.e+-]*", "#", (path / "tables.md").read_text()) for path in (tmp_path, folder))
    assert now == then, AGAIN


def near(content: Any) -> Any:
    """What JSON holds, its numbers up to rounding: other machines differ in the last bits."""
    if isinstance(content, dict):
        return {key: near(value) for key, value in content.items()}
    if isinstance(content, list):
        return [near(value) for value in content]
    return pytest.approx(content, rel=1e-6, abs=1e-12) if isinstance(content, float) else content


def recorded(results: Path) -> StoredRun:
    """One study with one run, as it is committed."""
    spec = RunSpec.from_dict(SPEC)
    folder = results / "mine" / "small"
    live = RunFolder(folder / "live" / spec.id)
    run(spec, live)
    write_archive([live], folder)
    about = {"study": "mine", "scale": "small", "title": "", "about": "", "analysis": "surefoot.studies.comparison"}
    (folder / "study.json").write_text(json.dumps({**about, "runs": {spec.id: spec.label}}))
    return live


def change(results: Path, made: StoredRun, *, rows: list[Row] | None = None, **record: Any) -> None:
    """Archive the run with other rows, as if they had been measured, or with something else in its record."""
    copy = RunFolder(results.parent / "changed" / made.name)
    copy.path.mkdir(parents=True, exist_ok=True)
    copy.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows or made.rows()[0]))
    copy.write_record({**made.record, "metrics_sha256": copy.checksum(), **record})
    write_archive([copy], results / "mine" / "small")


def test_a_recorded_run_is_made_again_to_the_last_bit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = recorded(tmp_path / "results")
    main(tmp_path / "results", tmp_path / "scratch")
    line = next(line for line in (tmp_path / "results/REPRODUCED.md").read_text().splitlines() if "mine/small" in line)
    values = sum(len(row) - 2 for row in made.rows()[0])  # without step and gradients
    assert f"| done | the same | {values} | {values} | 0 | 0 | - |" in line
    before = (tmp_path / f"scratch/{made.spec.id}/metrics.jsonl").stat().st_mtime_ns
    main(tmp_path / "results", tmp_path / "scratch")
    assert (tmp_path / f"scratch/{made.spec.id}/metrics.jsonl").stat().st_mtime_ns == before, "done twice"


def test_rows_that_were_changed_are_found(tmp_path: Path) -> None:
    made = recorded(tmp_path / "results")
    rows = made.rows()[0]
    rows[-1]["test/ece"] = made.observed()[0].last("test/ece") + 0.05
    change(tmp_path / "results", made, rows=rows)
    main(tmp_path / "results", tmp_path / "scratch")
    values = sum(len(row) - 2 for row in rows)
    page = (tmp_path / "results/REPRODUCED.md").read_text()
    assert f"| {values} | {values - 1} | 5 | " in page
    assert f"test/ece at step {rows[-1]['step']}" in page


def test_what_cannot_be_repeated_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = recorded(tmp_path / "results")
    results = tmp_path / "results"
    change(results, made, spec={**made.record["spec"], "data": {"name": "cifar10-5k"}})
    monkeypatch.setenv("SUREFOOT_DATA", str(tmp_path / "nowhere"))
    main(tmp_path / "results", tmp_path / "scratch")
    page = (tmp_path / "results/REPRODUCED.md").read_text()
    assert "Left out: mine/small: its data, cifar10-5k, is not here" in page
    assert str(tmp_path) not in page
    change(results, made, status="diverged")
    assert shortest(results / "mine" / "small") is None
    main(tmp_path / "results", tmp_path / "scratch")
    assert "no run there is done" in (tmp_path / "results/REPRODUCED.md").read_text()


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ([{"step": 0, "a": 1.0}, {"step": 1, "a": None}], Likeness(True, (), 2, 2, None, 0.0, "-")),
        ([{"step": 0, "a": 1.0}], Likeness(False, (), 1, 1, None, 0.0, "-")),
        ([{"step": 1, "a": None}], Likeness(False, (), 1, 1, None, 0.0, "-")),
        ([{"step": 0, "a": 1.0}, {"step": 1}], Likeness(True, ("a",), 1, 1, None, 0.0, "-")),
        ([{"step": 0, "a": 4.0}, {"step": 1, "a": None}], Likeness(True, (), 2, 1, None, 0.75, "a at step 0")),
        ([{"step": 0, "a": 1.0}, {"step": 1, "a": 0.0}], Likeness(True, (), 2, 1, None, float("inf"), "a at step 1")),
    ],
)
def test_likeness(now: list[Row], expected: Likeness) -> None:
    assert likeness([{"step": 0, "a": 1.0}, {"step": 1, "a": None}], now) == expected
