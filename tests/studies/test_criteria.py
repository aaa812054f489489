import csv
import json
import re
from pathlib import Path

import pytest

from surefoot.cli import main
from surefoot.studies.outcome import study_outcome, study_record
from surefoot.studies.study import read_study, study_files
from surefoot_papers.recorded import refresh

RESULTS = Path(__file__).parents[2] / "results"
STUDY = """
title = "Why?"
analysis = "surefoot_papers.sam_calibration.methods"
[[claims]]
claims = ["* is better calibrated than SGD", "SAM is as good (here)"]
statistic = "difference"
interval = "none"
threshold = "0"
[scales.digits]
about = "Small."
seeds = [0]
run = { budget = 2, data = { name = "digits", num_train = 50 }, model = { name = "mlp", widths = [4] } }
[[scales.digits.grid]]
optimizer = { name = "sgd", lr = 0.1 }
"""


def committed(name: str) -> list[Path]:
    return sorted(RESULTS.glob(f"{name}/*/claims.csv"))


def statements(path: Path) -> list[str]:
    with path.open() as lines:
        return [row["claim"] for row in csv.DictReader(lines)]


@pytest.mark.parametrize("name", study_files())
def test_every_claim_ever_judged_has_one_criterion_in_the_study_s_file(name: str) -> None:
    criteria = read_study(name).claims
    assert criteria
    judged = [statement for path in committed(name) for statement in statements(path)]
    for statement in judged:
        assert len([criterion for criterion in criteria if criterion.covers(statement)]) == 1, statement
    idle = [criterion for criterion in criteria if not any(map(criterion.covers, judged))]
    assert not idle or not judged, "criteria of claims that nothing judges"


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/*/study.json")), ids=lambda path: f"{path.parent}"[-40:])
def test_committed_results_say_how_their_claims_were_tested(path: Path) -> None:
    record = study_record(path.parent)
    held = [{**table, "claims": tuple(table["claims"])} for table in record["claims"]]
    now = [vars(criterion) for criterion in read_study(record["study"], scale=record["scale"]).claims]
    assert held == now, "make criteria, then surefoot report FOLDER"


def test_refreshing_a_record_changes_its_criteria_alone(tmp_path: Path) -> None:
    recorded = json.loads((RESULTS / "mse/digits/study.json").read_text())
    (tmp_path / "study.json").write_text(json.dumps({**recorded, "claims": []}))
    refresh(tmp_path)
    assert json.loads((tmp_path / "study.json").read_text()) == recorded


def test_statements_match_with_any_words_for_a_star_and_any_setting_behind(tmp_path: Path) -> None:
    (tmp_path / "why.toml").write_text(STUDY)
    (criterion,) = read_study(str(tmp_path / "why.toml")).claims
    for statement in ("SAM is better calibrated than SGD", "CSAM is better calibrated than SGD (cnn on digits)"):
        assert criterion.covers(statement)
    assert criterion.covers("SAM is as good (here)")
    for statement in ("SAM is better calibrated than SGD under fog", "SAM is as good", "SAM is as good Xhere)"):
        assert not criterion.covers(statement)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'interval = "none"',
            'intervall = "none"',
            r"Unknown key in \[\[claims\]\] 'intervall'. Did you mean 'interval'",
        ),
        ('interval = "none"\n', "", r"\[\[claims\]\] needs `interval`"),
        ('threshold = "0"', "threshold = 3", "`threshold` must be "),
        ("[[claims]]", "[claims]", "`claims` must be "),
    ],
)
def test_what_is_wrong_with_a_criterion_is_said(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "why.toml").write_text(STUDY.replace(old, new))
    with pytest.raises(ValueError, match=message):
        read_study(str(tmp_path / "why.toml"))


def test_criteria_are_told_before_and_after_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    Path("why.toml").write_text(STUDY)
    assert main(["study", "why.toml", "--dry-run"]) == 0
    assert "* is better calibrated than SGD / SAM is as good (here)" in re.sub(r"\s+", " ", capsys.readouterr().out)
    assert main(["study", "why.toml", "--no-page", "--json"]) == 0
    root = Path("runs/why/digits")
    table = study_outcome(root)["tables"][-1]
    assert table.rows == (("* is better calibrated than SGD / SAM is as good (here)", "difference", "none", "0"),)
    assert "How each claim is tested" in (root / "tables.md").read_text()
    assert "in all (wall time, added up, n = 1 of 1 runs)" in (root / "tables.md").read_text()
