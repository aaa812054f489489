import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("vl_convert")

from surefoot.diagnosis.diagnosis import diagnose
from surefoot.diagnosis.facts import run_facts
from surefoot.report import charts
from surefoot.report.course import MOST_ROWS, MOST_RUNS, Course, overview
from surefoot.report.page import Page, Section, chart_scripts, check_extra, inert_json
from surefoot.report.plots import colour_of
from surefoot.report.run import run_page
from surefoot.report.study import study_page, write_page, write_tables
from surefoot.report.study_figures import COMPARISON
from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Row, Trajectory
from surefoot.studies.claim import Claim, Verdict
from surefoot.studies.folder import StudyFolder
from surefoot.studies.outcome import Outcome
from surefoot.studies.study_outcome import RunState, StudyOutcome, study_outcome
from surefoot.table import Table


def runs() -> list[Trajectory]:
    made = []
    for name, lr in (("gd", 0.1), ("gd", 0.2), ("adamw", 0.01)):
        spec = RunSpec.from_dict({"optimizer": {"name": name, "lr": lr}, "budget": 30})
        keys = ("loss", "accuracy", "ece", "margin_mean", "ggn_sharpness")
        rows: list[Row] = [
            {"step": step, **{f"{s}/{k}": float(step + lr) for s in ("train", "test") for k in keys}}
            for step in range(30)
        ]
        rows[3]["train/ece"] = None  # a gap, not an error
        made.append(Trajectory.of(spec, rows))
    return made


def outcome(title: str = "Why?", **changed: object) -> StudyOutcome:
    table = Table("correlation", "r", ("a", "b"), (("x", 1.0),))
    maker = {"code": "abc", "commit": None, "versions": {"torch": "2"}, "hardware": {"cores": 2}, "num_runs": 3}
    given = {
        "study": "s",
        "scale": "digits",
        "title": title,
        "about": "About.",
        "file": None,
        "axes": {},
        "runs": (*[RunState("gd", "done")] * 3, RunState("gd lr=9", "diverged", "loss is nan at step 3")),
        "seeds": (0,),
        "origins": (maker,),
        "notes": (),
        "costs": (),
        "outcome": Outcome((table,), (Claim("y", "y", Verdict.REPRODUCED),)),
        "figures": (COMPARISON,),
    }
    return StudyOutcome(**{**given, **changed})  # type: ignore[arg-type]


def test_figures_are_the_same_bytes_every_time() -> None:
    first = COMPARISON.draw(runs())
    assert first == COMPARISON.draw(runs())
    assert first.startswith("<svg")


def test_the_page_stands_alone_and_names_what_is_left_out(tmp_path: Path) -> None:
    write_tables(tmp_path, outcome())
    html = write_page(tmp_path, outcome(), runs()).read_text()
    assert "diverged" in html
    assert "loss is nan at step 3" in html
    assert "commit unknown" in html
    own = html.replace(chart_scripts(), "")
    assert not re.search(r"src=|@import|url\(h|https?://(?!www\.w3\.org|purl\.org|creativecommons)", own)
    assert "default-src 'none'" in own  # the browser itself refuses whatever would be fetched
    assert own.count("<svg") == 1  # the figure that the analysis brings
    assert (tmp_path / "comparison.svg").read_text() in own
    assert own.count('class="chart"') == 12  # five quantities and the phase, training and test
    assert own.count("aria-label=") >= 13
    assert "diverged" in (tmp_path / "tables.md").read_text()
    assert (tmp_path / "tables.tex").read_text().count("\\toprule") == 3
    assert (tmp_path / "correlation.csv").read_text() == "a,b\nx,1.0\n"


def test_names_with_html_in_them_are_escaped() -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    spec = RunSpec.from_dict({"optimizer": {"name": evil, "lr": 0.1}, "budget": 3})
    rows: list[Row] = [{"step": 0, "test/ece": 0.1, "test/accuracy": 0.5, "test/confidence": 0.6, "train/loss": 1.0}]
    run = Trajectory.of(spec, rows)
    named = outcome(evil, runs=(RunState(evil, evil, evil),), about=evil)
    record = {"id": evil, "status": "failed", "reason": evil}
    for page in (
        study_page(named, [run]),
        run_page(record, run, diagnose(run_facts(run, status="failed", reason=evil))),
    ):
        html = page.html().replace(chart_scripts(), "")
        assert "alert(1)" in html
        assert "<script>alert" not in html
        assert "<img" not in html


def test_json_inside_a_script_cannot_close_it() -> None:
    assert inert_json({"a": "</script>", "b": float("nan")}) == '{"a":"\\u003c/script>","b":null}'


def test_a_study_without_runs_still_has_a_page(tmp_path: Path) -> None:
    empty = outcome(runs=(RunState("gd", "missing"),) * 2, origins=(), seeds=())
    assert "2 missing" in write_page(tmp_path, empty, []).read_text()


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, call in (
        ("matplotlib", lambda: COMPARISON.draw(runs())),
        ("jinja2", Page("", "", (Section("x"),)).html),
        ("vl_convert", chart_scripts.__wrapped__),
    ):
        monkeypatch.setitem(__import__("sys").modules, module, None)
        with pytest.raises(ImportError, match=r"pip install 'surefoot\[report\]'"):
            call()


def test_the_extra_is_missed_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefoot.report.page.find_spec", lambda name: None if name == "vl_convert" else name)
    with pytest.raises(ImportError, match=r"needs vl-convert-python: pip install 'surefoot\[report\]'"):
        check_extra()


def test_every_optimizer_has_one_colour_of_its_own() -> None:
    from surefoot.optim import OPTIMIZERS

    assert len({colour_of(name) for name in OPTIMIZERS}) == len(OPTIMIZERS)


def test_one_run_alone_has_a_page(tmp_path: Path) -> None:
    html = write_page(tmp_path, outcome(), runs()[:1]).read_text()
    assert "At the end 0 of" in html or "No run has an observed test set" in html


def test_runs_that_end_alike_are_summed_up() -> None:
    spec = RunSpec.from_dict({"optimizer": {"name": "gd", "lr": 0.1}, "budget": 3})
    rows: list[Row] = [{"step": 0, "test/ece": 0.2, "test/accuracy": 0.5, "test/confidence": 0.7}]
    other: list[Row] = [{"step": 0, "test/ece": 0.1, "test/accuracy": 0.5, "test/confidence": 0.4}]
    sentences = overview([run_facts(Trajectory.of(spec, each)) for each in (rows, rows, other)])
    assert sentences[0][1].startswith(
        "At the end 2 of 3 models are more sure than right on test samples; the middle one by +20"
    )
    assert "Lowest final test ECE: 0.100" in sentences[-1][1]


def test_gaps_stay_gaps() -> None:
    columns = Course.of(runs()).data["runs"][0]["columns"]
    assert columns["train/ece"][3] is None
    assert columns["test/ece"][3] == 3.1


def test_many_runs_and_rows_are_sampled_and_said(tmp_path: Path) -> None:
    short = runs()[0]
    long = Trajectory.of(short.spec, [{**short.at(0), "step": step} for step in range(1000)])
    specs = [RunSpec.from_dict({**short.spec.to_dict(), "seed": seed}) for seed in range(10_000)]
    many = [replace(long if spec.seed == 0 else short, spec=spec) for spec in specs]
    course = Course.of(many)
    assert len(course.data["runs"]) == MOST_RUNS
    assert [course.data["runs"][k]["seed"] for k in (0, -1)] == [0, 9999]
    steps = course.data["runs"][0]["steps"]
    assert (len(steps), steps[0], steps[-1]) == (MOST_ROWS, 0, 999)
    html = study_page(outcome(), many).html()
    assert f"{MOST_RUNS} of 10,000 runs are drawn" in html
    assert "50 are drawn" in html


def test_every_specification_is_one_that_vega_lite_knows() -> None:
    import vl_convert

    run = runs()[0]
    keys = (*charts.FAN, *(key for keys in charts.BOUNDS.values() for key in keys))
    whole: Row = {**run.at(0), **{f"{split}/{key}": 1.0 for split in ("train", "test") for key in keys}}
    bins = [f"{split}/bin_01_{what}" for split in ("train", "test") for what in ("count", "confidence", "right")]
    whole |= dict.fromkeys(bins, 1.0)
    made = Course.of([Trajectory.of(run.spec, [whole])]).charts()
    assert len(made) == 10 + 2 + 4 + 2 + 4
    for chart in made:
        names = {"all": [{}], "edges": [{}], "picked": [{}], "bins": [{}]}
        vl_convert.vegalite_to_vega({**chart.spec, "datasets": names})


def test_a_folder_from_a_newer_version_says_so(tmp_path: Path) -> None:
    keys = {"study": "s", "scale": "x", "title": "t", "about": "a", "runs": {"r": "r"}, "outcome": "coupling"}
    (tmp_path / "runs" / "r").mkdir(parents=True)
    record = {"id": "r", "label": "r", "status": "done", "spec": {"teleport": 1}, "versions": {"surefoot": "99.0.0"}}
    (tmp_path / "runs" / "r" / "run.json").write_text(json.dumps(record))
    (tmp_path / "runs" / "r" / "metrics.jsonl").write_text('{"step": 0}\n')
    (tmp_path / "study.json").write_text(json.dumps(keys))
    record["gradients"] = None
    (tmp_path / "runs" / "r" / "run.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match=r"Unknown key 'teleport'.* made by surefoot 99\.0\.0.*upgrade"):
        study_outcome(StudyFolder(tmp_path))
    (tmp_path / "study.json").write_text(
        json.dumps({**keys, "runs": {}, "outcome": "new", "versions": {"surefoot": "99.0.0"}})
    )
    with pytest.raises(ValueError, match=r"Unknown study 'new'.* made by surefoot 99\.0\.0"):
        study_outcome(StudyFolder(tmp_path))


def test_a_study_whose_runs_all_diverged_has_a_page() -> None:
    gone = tuple(RunState(f"gd lr={k}", "diverged", "loss is nan") for k in range(3))
    html = study_page(outcome(runs=gone, origins=(), seeds=()), []).html()
    assert "No run of this study is done yet" in html
    assert html.count("loss is nan") == 3


def test_bins_of_the_training_set_alone_are_drawn() -> None:
    spec = RunSpec.from_dict({"optimizer": {"name": "gd", "lr": 0.1}, "budget": 3})
    row: Row = {"step": 0, "train/bin_01_count": 4, "train/bin_01_confidence": 0.4, "train/bin_01_right": 3}
    course = Course.of([Trajectory.of(spec, [row])])
    assert course.num_bins == 1
    assert [chart.source["split"] for chart in course.reliabilities()] == ["train", "train"]
    assert course.data["runs"][0]["bins"] == {"train": [[0, 4, 4000, 3]]}


def test_what_is_no_run_or_study_is_refused_by_its_name(tmp_path: Path) -> None:
    import surefoot as sf

    for folder, message in (
        (tmp_path, "must have a run.json or a study.json"),
        (tmp_path / "nowhere", "must be the folder of a run or of a study"),
        ([0.1], "must be the path of a run's or a study's folder, got a list"),
    ):
        with pytest.raises(ValueError, match=f"`folder` {message}"):
            sf.report(folder)  # type: ignore[arg-type]
