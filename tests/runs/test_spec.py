import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from surefoot.runs.build import check
from surefoot.runs.spec import RunSpec
from surefoot.runs.toml import set_key

TREE: dict[str, Any] = {
    "budget": 10,
    "batch_size": 16,
    "optimizer": {"name": "adamw", "lr": 0.01, "betas": [0.9, 0.99]},
    "model": {"name": "mlp", "widths": [5, 5]},
    "schedule": {"every": 3},
}


def test_toml_round_trip_keeps_the_id(tmp_path: Path) -> None:
    spec = RunSpec.from_dict(TREE)
    (tmp_path / "spec.toml").write_text(spec.to_toml())
    again = RunSpec.from_toml(tmp_path / "spec.toml")
    assert again == spec
    assert again.id == spec.id
    assert tomllib.loads(spec.to_toml())["optimizer"]["betas"] == [0.9, 0.99]
    check(spec)


def test_what_is_left_to_defaults_has_the_id_of_what_spells_them_out() -> None:
    short = RunSpec.from_dict({"budget": 1, "optimizer": {"name": "gd", "lr": 0.1}})
    long = RunSpec.from_dict(short.to_dict())
    assert short.id == long.id
    assert short.id != RunSpec.from_dict({**short.to_dict(), "seed": 1}).id


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("optimizer.name=csm", r"Unknown optimizer 'csm'\. .*Known: adamw, asam, bsam"),
        ("optimizer.name=adamv", r"Did you mean 'adamw'\?"),
        ("optimizer.momentun=0.9", r"Unknown key in \[optimizer\] 'momentun'\."),
        ("optimizer.lr=-0.1", r"`optimizer.lr` must be positive and finite, got -0.1"),
        ("optimizer.lr=nan", r"`optimizer.lr` must be positive"),
        ("optimizer.eps=nan", r"`optimizer.eps` must be a number, got nan"),
        ("optimizer.lr='fast'", r"`optimizer.lr` must be a number, got 'fast'"),
        ("optimizer.betas=[0.9]", r"`optimizer.betas` must be a list of numbers, got \[0.9\]"),
        ("optimizer=3", r"`optimizer` must be a table, got 3"),
        ("budgets=3", r"Unknown key 'budgets'\. Did you mean 'budget'\?"),
        ("budget=true", r"`budget` must be a whole number, got True"),
        ("budget=0", r"`budget` must be at least 1, got 0"),
        ("seed=-1", r"`seed` must be at least 0"),
        ("batch_size=0", r"`batch_size` must be at least 1"),
        ("batch_size='half'", r"`batch_size` must be a whole number or 'full', got 'half'"),
        ("device=gpu", r"`device` must be 'auto' or 'cpu' or 'cuda' or 'mps', got 'gpu'"),
        ("schedule.evry=2", r"Unknown key in \[schedule\] 'evry'\. Did you mean 'every'\?"),
        ("schedule.every=0", r"`every` must be at least 1"),
        ("model.name=mpl", r"Unknown model 'mpl'\. Did you mean 'mlp'\?"),
        ("model.widths=[1.5]", r"`model.widths` must be a list of whole numbers"),
        ("model.num_classes=3", r"`model.num_classes` follows from the data"),
        ("data.name=digts", r"Unknown dataset 'digts'\. Did you mean 'digits'\?"),
        ("loss.name=crossentropy", r"Did you mean 'cross_entropy'\?"),
        ("loss.gamma=2", r"Unknown key in \[loss\] 'gamma'\."),
        ("observers.curvatur.tolerance=0.1", r"Unknown observer 'curvatur'\. Did you mean 'curvature'\?"),
        ("observers.curvature=1", r"`observers.curvature` must be a table"),
        ("num_threads=100000", r"`num_threads` must be at most 256"),
        ("seed=99999999999", r"`seed` must be at most"),
        ("=3", "must look like key=value"),
        ("optimizer.lr.x=3", "`lr` is not a table"),
    ],
)
def test_a_bad_spec_is_refused_in_one_sentence(change: str, message: str) -> None:
    tree: dict[str, Any] = {**TREE, "optimizer": dict(TREE["optimizer"]), "data": {"name": "digits"}}
    tree |= {"model": dict(TREE["model"]), "loss": {"name": "cross_entropy"}, "schedule": {}, "observers": {}}

    def read() -> None:
        set_key(tree, change)
        check(RunSpec.from_dict(tree))

    with pytest.raises(ValueError, match=message) as caught:
        read()
    assert "\n" not in str(caught.value)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match="needs `budget`"):
        RunSpec.from_dict({"optimizer": {"name": "gd", "lr": 0.1}})
    with pytest.raises(ValueError, match="needs a `name`"):
        RunSpec.from_dict({"optimizer": {"lr": 0.1}, "budget": 1})
    with pytest.raises(ValueError, match=r"\[optimizer\] needs `lr`"):
        check(RunSpec.from_dict({"optimizer": {"name": "gd"}, "budget": 1}))


def test_gd_insists_on_the_full_batch() -> None:
    with pytest.raises(ValueError, match='`batch_size` must be "full" for gd, got 16'):
        check(RunSpec.from_dict({**TREE, "optimizer": {"name": "gd", "lr": 0.1}}))


def test_observers_are_the_default_ones_unless_left_out() -> None:
    tree: dict[str, Any] = {**TREE}
    set_key(tree, "observers.calibration.num_bins=20")
    spec = RunSpec.from_dict(tree)
    assert spec.observers == {"calibration": {"num_bins": 20}, "margins": {}, "curvature": {}}
    set_key(tree, "observers.curvature=false")
    spec = RunSpec.from_dict(tree)
    assert spec.observers == {"calibration": {"num_bins": 20}, "margins": {}}
    assert RunSpec.from_dict(spec.to_dict()) == spec
    assert tomllib.loads(spec.to_toml())["observers"]["curvature"] is False


@pytest.mark.parametrize("content", [b"budget = ", b"\xff\xfe", b"[optimizer\nname=1"])
def test_a_file_that_is_not_toml(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "spec.toml").write_bytes(content)
    with pytest.raises(ValueError, match="is not TOML"):
        RunSpec.from_toml(tmp_path / "spec.toml")
    with pytest.raises(ValueError, match="There is no file"):
        RunSpec.from_toml(tmp_path / "absent.toml")
    with pytest.raises(ValueError, match="is a folder"):
        RunSpec.from_toml(tmp_path)


def test_committed_runs_are_named_by_the_hash_of_their_spec() -> None:
    """New keys must not rename old runs."""
    archives = sorted((Path(__file__).parents[2] / "results").glob("*/*/runs.jsonl"))
    assert len(archives) > 30
    for path in archives:
        for record in map(json.loads, path.read_text().splitlines()):
            assert RunSpec.from_dict(record["spec"]).id == record["id"]


@pytest.mark.parametrize("change", [{"rate": {"name": "cosine"}}, {"reduction": "sum"}, {"clip_grad_norm": 2.0}])
def test_later_keys_count_where_they_are_used(change: dict[str, Any]) -> None:
    tree = {"optimizer": {"name": "sgd", "lr": 0.1}, "budget": 9}
    assert RunSpec.from_dict({**tree, **change}).id != RunSpec.from_dict(tree).id
    assert RunSpec.from_dict({**tree, "rate": {"name": "constant"}}).id == RunSpec.from_dict(tree).id


def test_a_label_tells_apart_what_differs_in_the_options_of_a_loss_or_an_ensemble() -> None:
    plain = {"budget": 1, "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9}}
    runs = [
        RunSpec.from_dict({**plain, "loss": {"name": "label_smoothing", "smoothing": 0.05}}),
        RunSpec.from_dict({**plain, "loss": {"name": "label_smoothing", "smoothing": 0.2}}),
        RunSpec.from_dict({**plain, "ensemble": {"name": "mc_dropout", "num_samples": 5}}),
    ]
    assert [run.label for run in runs] == [
        "sgd momentum=0.9 lr=0.1 + label_smoothing smoothing=0.05 seed=0",
        "sgd momentum=0.9 lr=0.1 + label_smoothing smoothing=0.2 seed=0",
        "sgd momentum=0.9 lr=0.1 + mc_dropout num_samples=5 seed=0",
    ]
