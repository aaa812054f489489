"""Runs that keep the weights of the lowest validation NLL."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from surefoot.cli import main
from surefoot.metrics import nll
from surefoot.predictions import Predictions
from surefoot.runs.build import check
from surefoot.runs.control import RunControl
from surefoot.runs.folder import RunFolder
from surefoot.runs.restored_training import restored_training
from surefoot.runs.run import run
from surefoot.runs.selection import selected
from surefoot.runs.spec import RunSpec

TREE: dict[str, Any] = {
    "budget": 120,
    "optimizer": {"name": "sgd", "lr": 0.5},
    "batch_size": 20,
    "data": {"name": "digits", "num_train": 150, "num_validation": 50, "noisy_labels": 0.3},
    "model": {"name": "mlp", "widths": [30]},
    "schedule": {"every": 6, "per_decade": 0},
    "observers": {"curvature": False},
    "select": "validation nll",
}


def spec(**changes: Any) -> RunSpec:
    return RunSpec.from_dict({**TREE, **changes})


def validation_nll(path: Path) -> float:
    training, _ = restored_training(path)
    split = training.splits["validation"]
    with torch.no_grad():
        return float(nll(Predictions(training.model.eval()(split.inputs), split.labels)))


def test_both_ends_are_kept_and_the_curve_is_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen, plain = RunFolder(tmp_path / "chosen"), RunFolder(tmp_path / "plain")
    assert run(spec(), chosen).status == "done"
    run(spec(select="last"), plain)
    assert chosen.metrics.read_bytes() == plain.metrics.read_bytes()
    assert "selected" not in plain.record
    assert not plain.selected.exists()
    rows, best = chosen.rows()[0], chosen.record["selected"]
    assert best == min(rows, key=lambda row: row["validation/nll"] or 0)
    assert 0 < best["step"] < rows[-1]["step"]  # it overfits: else the test shows nothing
    assert validation_nll(chosen.selected) == pytest.approx(best["validation/nll"], rel=1e-6)
    assert validation_nll(chosen.path) == pytest.approx(rows[-1]["validation/nll"], rel=1e-6)
    (tmp_path / "spec.toml").write_text(spec().to_toml())
    assert main(["train", str(tmp_path / "spec.toml"), "--out", str(tmp_path / "cli")]) == 0
    assert f"lowest validation nll at step {best['step']}: test accuracy" in capsys.readouterr().out


def test_cut_off_at_every_step_it_keeps_the_same(tmp_path: Path) -> None:
    whole, pieces = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "pieces")
    run(spec(budget=40), whole)
    while run(spec(budget=40), pieces, control=RunControl(should_stop=lambda: True)).status != "done":
        pass
    assert pieces.record["selected"] == whole.record["selected"]
    assert pieces.selected.read_bytes() == whole.selected.read_bytes()
    run(spec(budget=40), pieces, rerun=True)
    assert pieces.selected.read_bytes() == whole.selected.read_bytes()


def test_a_run_killed_after_its_last_checkpoint_does_not_believe_in_rows_that_are_gone(tmp_path: Path) -> None:
    folder, whole = RunFolder(tmp_path / "cut"), RunFolder(tmp_path / "whole")
    run(spec(budget=40), whole)
    run(spec(budget=40), folder, control=RunControl(should_stop=lambda: True))
    with folder.metrics.open("a") as file:
        file.write(json.dumps({"step": 3, "validation/nll": 0.001}) + "\n")
    assert run(spec(budget=40), folder).status == "done"
    assert folder.selected.read_bytes() == whole.selected.read_bytes()


def test_the_earliest_of_equals() -> None:
    assert selected([{"step": 1, "validation/nll": 1.0}, {"step": 2, "validation/nll": 1.0}]) == {
        "step": 1,
        "validation/nll": 1.0,
    }
    assert selected([{"step": 1}]) is None


def test_it_has_a_name_of_its_own_and_older_runs_keep_theirs() -> None:
    assert spec(select="last").id == RunSpec.from_dict({k: v for k, v in TREE.items() if k != "select"}).id
    assert spec().id != spec(select="last").id


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"select": "best"}, "`select` must be 'last' or 'validation nll', got 'best'"),
        ({"data": {"name": "digits"}}, "the data holds nothing out: set `data.num_validation`"),
        ({"observers": {"calibration": False}}, "which the observer calibration measures"),
    ],
)
def test_what_cannot_be_selected_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check(spec(**changes))
