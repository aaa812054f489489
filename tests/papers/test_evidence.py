"""The evidence that diagnoses cite: the packaged one, and made-up runs."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from surefoot.diagnosis.evidence import evidence
from surefoot.runs.spec import RunSpec
from surefoot_papers.evidence import gather

RESULTS = Path(__file__).parents[2] / "results"


def test_the_packaged_evidence_is_what_the_committed_results_say() -> None:
    assert list(evidence()) == gather(RESULTS), "make evidence"


def test_an_effect_by_hand() -> None:
    items = {
        (item.change, item.source): item for item in evidence() if item.kind == "optimizer" and item.optimizer == "gd"
    }
    item = items["train with sam rho=0.1 in place of gd", "interventions/digits"]
    table = (RESULTS / "interventions/digits/tables.md").read_text()
    assert str(item.ece) in table  # the study's own analysis, by other code


def write_study(folder: Path, runs: Sequence[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    about = {"study": folder.parent.name, "scale": folder.name, "title": "", "about": ""}
    (folder / "study.json").write_text(json.dumps({**about, "runs": dict.fromkeys(runs, "")}))


@pytest.mark.parametrize(
    ("optimizer", "steps", "margin", "count"),
    [
        ({"name": "sam", "rho": 0.1}, 10, -1.0, 1),
        ({"name": "sam", "rho": 0.1}, 5, -1.0, 0),
        ({"name": "muon"}, 10, -1.0, 2),  # in place of gd, and gd in place of it
        ({"name": "muon"}, 10, 1.0, 0),
        ({"name": "sam", "rho": 0.1}, 10, 1.0, 1),  # pairs of one learning rate
    ],
)
def test_optimizers_that_did_not_train_alike_are_no_evidence(
    tmp_path: Path, optimizer: dict[str, object], steps: int, margin: float, count: int
) -> None:
    runs: list[str] = []
    shift = 1.0 if optimizer["name"] == "muon" else 0.0
    for change, last, least, own in (({"name": "gd"}, 10, -1.0, 0.0), (optimizer, steps, margin, shift)):
        for lr in (0.1, 0.2):
            spec = RunSpec.from_dict({"optimizer": {"lr": lr + own, **change}, "budget": 20})
            folder = tmp_path / "coupling/digits/runs" / spec.id
            folder.mkdir(parents=True)
            runs.append(spec.id)
            row = {
                "step": last,
                "test/ece": lr,
                "test/accuracy": 0.5,
                "test/confidence": 0.9,
                "train/margin_min": least,
            }
            (folder / "metrics.jsonl").write_text(json.dumps(row) + "\n")
            (folder / "run.json").write_text(
                json.dumps({"id": spec.id, "label": "", "spec": spec.to_dict(), "status": "done"})
            )
    for study in ("coupling/digits", "coupling/cifar-small", "interventions/digits"):
        write_study(tmp_path / study, runs if study == "coupling/digits" else [])
    assert len(gather(tmp_path)) == count
