"""Losses and objectives by name in a run spec: what combines, what is refused, and runs that are cut off."""

from pathlib import Path
from typing import Any

import pytest

from surefoot.losses import LOSSES, OBJECTIVES
from surefoot.runs.build import build, check
from surefoot.runs.control import RunControl
from surefoot.runs.folder import RunFolder
from surefoot.runs.run import run
from surefoot.runs.spec import RunSpec

TINY: dict[str, Any] = {
    "budget": 12,
    "optimizer": {"name": "sgd", "lr": 0.1},
    "batch_size": 30,
    "data": {"name": "digits", "num_train": 120, "num_validation": 30},
    "model": {"name": "mlp", "widths": [12]},
    "schedule": {"every": 4, "per_decade": 2},
    "observers": {"curvature": False},
}


def spec(**changes: Any) -> RunSpec:
    return RunSpec.from_dict({**TINY, **changes})


@pytest.mark.parametrize("loss", [*LOSSES, *OBJECTIVES])
@pytest.mark.parametrize("optimizer", ["sgd", "sam"])
def test_interrupted_at_every_step_ends_with_the_same_bytes(tmp_path: Path, loss: str, optimizer: str) -> None:
    asked = spec(loss={"name": loss}, optimizer={"name": optimizer, "lr": 0.1})
    whole, pieces = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "pieces")
    ended = run(asked, whole)
    assert (ended.status, ended.reason) == ("done", "")
    calls = 0
    while run(asked, pieces, control=RunControl(should_stop=lambda: True)).status != "done":
        calls += 1
    assert calls == (12 if optimizer == "sgd" else 6)
    assert pieces.metrics.read_bytes() == whole.metrics.read_bytes()
    assert "validation/ece" in whole.rows()[0][-1]


def test_the_seed_of_draws_is_that_of_the_run_unless_it_is_set() -> None:
    assert build(spec(loss={"name": "mixup"}, seed=7)).objective.seed == 7  # type: ignore[attr-defined]
    assert build(spec(loss={"name": "mixup", "seed": 3}, seed=7)).objective.seed == 3  # type: ignore[attr-defined]


def test_data_without_validation_has_rows_as_before(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    run(spec(data={"name": "digits", "num_train": 100}), folder)
    assert not any(key.startswith("validation") for row in folder.rows()[0] for key in row)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": {"name": "mixupp"}}, "Unknown loss 'mixupp'. Did you mean 'mixup'"),
        ({"loss": {"name": "mixup", "alhpa": 1.0}}, r"Unknown key in \[loss\] 'alhpa'. Did you mean 'alpha'"),
        ({"loss": {"name": "mixup", "alpha": "much"}}, "`loss.alpha` must be a number"),
        ({"loss": {"name": "label_smoothing", "over": "some"}}, "`loss.over` must be 'all' or 'others'"),
        ({"loss": {"name": "crl", "num_samples": 3}}, r"Unknown key in \[loss\] 'num_samples'"),
        (
            {"loss": {"name": "adafocal"}, "data": {"name": "digits"}},
            "adafocal needs a validation split: set `data.num",
        ),
        ({"loss": {"name": "ar_adals"}, "data": {"name": "digits", "num_validation": 0}}, "needs a validation split"),
        ({"loss": {"name": "margin_aware"}, "data": {"name": "digits"}}, "margin_aware needs a validation split"),
        ({"loss": {"name": "mixup"}, "optimizer": {"name": "csam", "lr": 0.1}}, "CSAM weighs the loss of each"),
        ({"loss": {"name": "mmce"}, "optimizer": {"name": "bulk_sgd", "lr": 0.1}}, "mmce couples the samples"),
        ({"loss": {"name": "macs"}, "optimizer": {"name": "bulk_sgd", "lr": 0.1}}, "macs is no loss of logits"),
        ({"loss": {"name": "margin_aware"}, "optimizer": {"name": "bulk_sgd", "lr": 0.1}}, "is no loss of logits"),
        (
            {"loss": {"name": "mdca"}, "observers": {}},
            "observer curvature needs the curvature of a loss, and mdca couples",
        ),
        (
            {"loss": {"name": "macs"}, "observers": {"curvature": False, "batch_sharpness": {}}},
            "set `observers.batch_sharpness` to false",
        ),
    ],
)
def test_what_does_not_combine_is_refused_before_anything_runs(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check(spec(**changes))


@pytest.mark.parametrize("loss", ["mmce", "mdca", "cpc", "label_smoothing", "adafocal", "acls", "margin_aware"])
def test_csam_weighs_every_loss_of_logits_and_what_is_based_on_one(tmp_path: Path, loss: str) -> None:
    asked = spec(loss={"name": loss}, optimizer={"name": "csam", "lr": 0.1, "gamma": 1.0})
    assert run(asked, RunFolder(tmp_path)).status == "done"


def test_a_weight_that_is_kept_needs_no_validation_split() -> None:
    for kept in ({"adapt": 0.0}, {"smooth": 0.0}):
        check(spec(loss={"name": "margin_aware", **kept}, data={"name": "digits"}))


def test_every_third_step_survives_being_cut_off(tmp_path: Path) -> None:
    asked = spec(loss={"name": "margin_aware", "every": 3})
    whole, pieces = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "pieces")
    run(asked, whole)
    while run(asked, pieces, control=RunControl(should_stop=lambda: True)).status != "done":
        pass
    assert pieces.metrics.read_bytes() == whole.metrics.read_bytes()
    assert build(asked).objective.every == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize("loss", ["adafocal", "cpc", "brier", "margin_aware", "input_gradient"])
def test_curvature_is_observed_of_losses_that_treat_samples_alone_and_of_what_terms_are_added_to(
    tmp_path: Path, loss: str
) -> None:
    folder = RunFolder(tmp_path)
    assert run(spec(loss={"name": loss}, observers={}), folder).status == "done"
    assert folder.rows()[0][-1]["validation/ggn_certified"] is not None
