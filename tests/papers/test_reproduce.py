import csv
import json
import re
from pathlib import Path

import pytest

from surefoot.report.study import write_tables
from surefoot.runs.folder import Row, RunFolder
from surefoot.runs.run import run
from surefoot.runs.spec import RunSpec
from surefoot.studies.outcome import study_outcome, study_record
from surefoot.studies.study import read_study
from surefoot_papers.reproduce import Likeness, likeness, main

RESULTS = Path(__file__).parents[2] / "results"
RECORDED = sorted(path.parent for path in RESULTS.glob("*/*/study.json"))
NAMES = [f"{path.parent.name}/{path.name}" for path in RECORDED]
SPEC = {
    "optimizer": {"name": "sgd", "lr": 0.1},
    "budget": 4,
    "batch_size": 10,
    "data": {"name": "digits", "num_train": 50},
    "model": {"name": "mlp", "widths": [4]},
}


@pytest.mark.parametrize("folder", RECORDED, ids=NAMES)
def test_every_recorded_run_is_one_that_its_study_makes_today(folder: Path) -> None:
    record = study_record(folder)
    assert (record["study"], record["scale"]) == (folder.parent.name, folder.name)
    planned = {spec.id for spec in read_study(record["study"], scale=record["scale"]).specs}
    held = {path.name for path in (folder / "runs").iterdir()}
    assert held <= planned
    assert held == planned or "partial" in (folder / "README.md").read_text()
    assert all(RunFolder(path).ended or RunFolder(path).status == "failed" for path in (folder / "runs").iterdir())


@pytest.mark.parametrize("folder", RECORDED, ids=NAMES)
def test_recorded_results_name_the_command_that_makes_them(folder: Path) -> None:
    command = f"surefoot study {folder.parent.name} --scale {folder.name}"
    assert command in (folder / "tables.md").read_text()
    assert command in " ".join((folder / "README.md").read_text().split())


@pytest.mark.slow
@pytest.mark.parametrize("folder", RECORDED, ids=NAMES)
def test_recorded_tables_are_those_of_the_recorded_rows(folder: Path, tmp_path: Path) -> None:
    write_tables(tmp_path, study_outcome(folder))
    made = sorted(path.name for path in tmp_path.glob("*.csv"))
    assert made == sorted(path.name for path in folder.glob("*.csv")), f"surefoot report {folder}"
    for name in made:
        assert cells(tmp_path / name) == [
            [pytest.approx(cell, rel=1e-6, abs=1e-12) if isinstance(cell, float) else cell for cell in row]
            for row in cells(folder / name)
        ], f"surefoot report {folder}"


@pytest.mark.slow
@pytest.mark.parametrize("folder", RECORDED, ids=NAMES)
def test_recorded_pages_of_tables_say_what_is_said_today(folder: Path, tmp_path: Path) -> None:
    write_tables(tmp_path, study_outcome(folder))
    now, then = (re.sub(r"[-+]?\d[\d.e+-]*", "#", (path / "tables.md").read_text()) for path in (tmp_path, folder))
    assert now == then, f"surefoot report {folder}"


def cells(path: Path) -> list[list[str | float]]:
    with path.open(newline="") as lines:
        return [[number(cell) for cell in row] for row in csv.reader(lines)]


def number(cell: str) -> str | float:
    try:
        return float(cell)
    except ValueError:
        return cell


def recorded(results: Path) -> RunFolder:
    """One study with one run, as it is committed."""
    spec = RunSpec.from_dict(SPEC)
    folder = results / "mine" / "small"
    made = RunFolder(folder / "live" / spec.id)
    run(spec, made)
    made.archive(folder / "runs" / spec.id)
    about = {"study": "mine", "scale": "small", "title": "", "about": "", "outcome": "methods"}
    (folder / "study.json").write_text(json.dumps({**about, "runs": {spec.id: spec.label}}))
    return made


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
    packed = tmp_path / "results/mine/small/runs" / made.spec.id
    rows = made.rows()[0]
    rows[-1]["test/ece"] = (rows[-1]["test/ece"] or 0) + 0.05
    (packed / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    RunFolder(packed).write_record({**made.record, "metrics_sha256": RunFolder(packed).digest()})  # as if measured so
    main(tmp_path / "results", tmp_path / "scratch")
    values = sum(len(row) - 2 for row in rows)
    page = (tmp_path / "results/REPRODUCED.md").read_text()
    assert f"| {values} | {values - 1} | 5 | " in page
    assert f"test/ece at step {rows[-1]['step']}" in page


def test_what_cannot_be_done_again_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = recorded(tmp_path / "results")
    packed = tmp_path / "results/mine/small/runs" / made.spec.id / "run.json"
    record = json.loads(packed.read_text())
    record["spec"]["data"] = {"name": "cifar10-5k"}
    packed.write_text(json.dumps(record))
    monkeypatch.setenv("SUREFOOT_DATA", str(tmp_path / "nowhere"))
    main(tmp_path / "results", tmp_path / "scratch")
    page = (tmp_path / "results/REPRODUCED.md").read_text()
    assert "Left out: mine/small: its data, cifar10-5k, is not here" in page
    assert str(tmp_path) not in page
    record["status"] = "diverged"
    packed.write_text(json.dumps(record))
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
