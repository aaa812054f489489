import json
import re
from pathlib import Path

import pytest

from surefoot.cli import main
from surefoot.studies.claim import Claim
from surefoot.studies.folder import StudyFolder
from surefoot.studies.study import read_study, study_files
from surefoot.studies.study_outcome import study_outcome
from surefoot_papers.recorded import refresh

RESULTS = Path(__file__).parents[2] / "results"
STUDY = """
title = "Why?"
analysis = "surefoot_papers.sam_calibration.methods"
[claims.ece]
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


def judged(name: str) -> list[Claim]:
    paths = sorted(RESULTS.glob(f"{name}/*/outcome.json"))
    return [Claim.from_dict(record) for path in paths for record in json.loads(path.read_text())["claims"]]


@pytest.mark.parametrize("name", study_files())
def test_every_claim_ever_judged_has_a_rule_in_the_study_s_file(name: str) -> None:
    families = [rule.family for rule in read_study(name).rules]
    assert families
    used = {claim.family for claim in judged(name)}
    assert used <= set(families)
    assert not used or set(families) == used, "rules of claims that nothing judges"


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/*/study.json")), ids=lambda path: f"{path.parent}"[-40:])
def test_committed_results_say_how_their_claims_were_judged(path: Path) -> None:
    folder = StudyFolder(path.parent)
    study = read_study(folder.record["study"], scale=folder.record["scale"])
    assert folder.rules == study.rules, "make tables"
    assert folder.record["analysis"] == study.analysis


def test_refreshing_a_record_changes_its_rules_alone(tmp_path: Path) -> None:
    recorded = json.loads((RESULTS / "mse/digits/study.json").read_text())
    (tmp_path / "study.json").write_text(json.dumps({**recorded, "claims": {}, "analysis": "elsewhere"}))
    refresh(tmp_path)
    assert json.loads((tmp_path / "study.json").read_text()) == recorded


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'interval = "none"',
            'intervall = "none"',
            r"Unknown key in \[claims\.ece\] 'intervall'. Did you mean 'interval'",
        ),
        ('interval = "none"\n', "", r"\[claims\.ece\] needs `interval`"),
        ('threshold = "0"', "threshold = 3", "`threshold` must be "),
        ("[claims.ece]", "[[claims]]", "`claims` must be "),
    ],
)
def test_what_is_wrong_with_a_rule_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "why.toml").write_text(STUDY.replace(old, new))
    with pytest.raises(ValueError, match=message):
        read_study(str(tmp_path / "why.toml"))


def test_rules_are_shown_before_and_after_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    Path("why.toml").write_text(STUDY)
    assert main(["study", "why.toml", "--dry-run"]) == 0
    assert "ece │ difference │ none │ 0" in re.sub(r"\s+", " ", capsys.readouterr().out)
    assert main(["study", "why.toml", "--no-page", "--json"]) == 0
    root = Path("runs/why/digits")
    table = study_outcome(StudyFolder(root)).tables[-1]
    assert table.rows == (("ece", "difference", "none", "0"),)
    assert "How each claim is judged" in (root / "tables.md").read_text()
    assert "in all (wall time, added up, n = 1 of 1 runs)" in (root / "tables.md").read_text()
