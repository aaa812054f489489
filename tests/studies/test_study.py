import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from references.stand_in import write_stand_ins
from surefoot.cli import main
from surefoot.runs.build import build, check
from surefoot.runs.preflight import preflight
from surefoot.runs.spec import Part
from surefoot.studies.comparison import method_of
from surefoot.studies.run import missing
from surefoot.studies.study import read_study, scale_names, study_files

GOOD = """
title = "Why?"
analysis = "surefoot_papers.too_sharp.coupling"
[scales.small]
about = "Small."
seeds = [0, 1]
run = { data = { name = "digits" }, budget = 5 }
[[scales.small.grid]]
optimizer = { name = "gd", lr = [0.1, 0.2] }
[[scales.small.grid]]
optimizer = { name = "sgd", lr = 0.1, momentum = [0.0, 0.9] }
batch_size = [8, 16]
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("coupling", "couplin", r"`analysis` must be a module, .* got 'surefoot_papers\.too_sharp\.couplin'"),
        ("budget = 5", "budget = 5, observers = { margins = false }", "needs the observer margins"),
        ('name = "sgd", lr = 0.1', 'name = "sgd"', "names no `lr`"),
        ("momentum = [0.0, 0.9]", "momentum = -1.0", "Invalid momentum value: -1.0"),
        (
            "momentum = [0.0, 0.9]",
            "momentun = 0.9",
            r"'momentun'.* \(in run sgd momentun=0.9 lr=0.1 seed=0\)",
        ),
        ("budget = 5", "budget = 5, model = { name = 'mlp', widths = [0] }", "`widths` must be at least 1 each"),
        ("budget = 5", "budget = 5, device = 'mps'", "`device` is 'mps', but this machine has none"),
    ],
)
def test_what_cannot_work_is_found_before_the_first_run(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "why.toml").write_text(GOOD.replace(old, new))
    study = read_study(str(tmp_path / "why.toml"), scale="small")
    with pytest.raises(ValueError, match=message):
        preflight([trial.spec for trial in missing(study, tmp_path / "out")])
    assert not (tmp_path / "out").exists()


def test_a_grid_is_every_combination_with_every_seed(tmp_path: Path) -> None:
    (tmp_path / "why.toml").write_text(GOOD)
    study = read_study(str(tmp_path / "why.toml"), scale="small")
    assert len(study.specs) == 2 * (2 + 4)
    assert [spec.seed for spec in study.specs] == [0] * 6 + [1] * 6
    points = {
        (s.optimizer.name, s.optimizer.options["lr"], s.optimizer.options.get("momentum"), s.batch_size)
        for s in study.specs
    }
    assert ("sgd", 0.1, 0.9, 16) in points
    assert len(points) == 6


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title", "titel", r"In why.toml: Unknown key in a study 'titel'\. Did you mean 'title'\?"),
        ("seeds = [0, 1]\n", "", r"\[scales.small\] needs `seeds`"),
        ("budget = 5", "budgt = 5", "Unknown key 'budgt'"),
        ("[0.0, 0.9]", "[0.9, 0.9]", "two runs of scale 'small' are the same"),
        ("[0.1, 0.2]", "[1, 1.0]", "two runs of scale 'small' are the same: gd lr=1 seed=0"),
        ("seeds = [0, 1]", "seeds = [0, 0]", "two runs of scale 'small' are the same: .* seed=0"),
        ("budget = 5", "budget = 5, seed = 7", "the seeds of scale 'small' are its `seeds`"),
        ("batch_size", "seed = [7, 8]\nbatch_size", "the seeds of scale 'small' are its `seeds`"),
        ("batch_size", "batchsize", r"block 2 of \[\[scales.small.grid\]\], .*: Unknown key 'batchsize'"),
        ('analysis = "surefoot_papers.too_sharp.coupling"\n', "", "a study needs `analysis`"),
        ("analysis", "outcome", "`outcome` is called `analysis` now"),
        ("seeds = [0, 1]", "seeds = 3", "`seeds` must be a list of whole numbers, got 3"),
        ("seeds = [0, 1]", "seeds = []", "needs at least one seed"),
        (GOOD.partition("[[")[2], "x", "is not TOML"),
        ("[[" + GOOD.partition("[[")[2], "grid = 3", "`grid` must be a list of tables, got 3"),
        ('about = "Small."', "about = 3", "`about` must be a string, got 3"),
        ("[0.0, 0.9]", "[]", "`optimizer.momentum` in the grid lists no values"),
        ("[scales.small]", "[axis]\n[scales.small]", r"Unknown key in a study 'axis'\. Did you mean 'axes'\?"),
        ("[" + GOOD.partition("[")[2], "[scales]", "a study needs at least one scale"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "why.toml").write_text(GOOD.replace(old, new))
    with pytest.raises(ValueError, match=message):
        read_study(str(tmp_path / "why.toml"), scale="small")


def test_unknown_names_suggest() -> None:
    with pytest.raises(ValueError, match=r"Unknown study 'copling'\. Did you mean 'coupling'\?"):
        read_study("copling", scale="digits")
    with pytest.raises(ValueError, match=r"Unknown scale 'digit'\. Did you mean 'digits'\?"):
        read_study("coupling", scale="digit")


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few images in place of the large data sets."""
    write_stand_ins(tmp_path)
    monkeypatch.setenv("SUREFOOT_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few images in place of CIFAR-10, and of the sets foreign to it."""
    images = np.random.default_rng(0).integers(0, 256, (60, 32, 32, 3), np.uint8)
    for name in ("cifar10", "cifar10_5k", "cifar100_5k", "svhn_test_2k"):
        labels = np.arange(60) % 10
        np.savez(tmp_path / f"{name}.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    monkeypatch.setenv("SUREFOOT_DATA", str(tmp_path))


@pytest.fixture
def clothes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file like that of Fashion-MNIST, of random images, where it is looked for."""
    images = np.random.default_rng(0).integers(0, 256, (5000, 28, 28, 1), np.uint8)
    labels = np.arange(5000) % 10
    np.savez(tmp_path / "fashion-mnist.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    monkeypatch.setenv("SUREFOOT_DATA", str(tmp_path))


@pytest.mark.parametrize(("name", "scale"), [(n, s) for n, path in study_files().items() for s in scale_names(path)])
def test_every_shipped_study_can_be_built(name: str, scale: str, request: pytest.FixtureRequest) -> None:
    study = read_study(name, scale=scale)
    for spec in study.specs:
        check(spec)
    if scale == "paper" and name in ("methods", "sam-variants", "rho-gamma", "combinations", "flatness"):
        return  # on a smaller network, every method: test_paper_scale.py
    specs = study.specs
    for data in {spec.data.name for spec in study.specs}:
        if data == "cifar10" and not scale.startswith("paper"):
            request.getfixturevalue("few")
            small = Part(data, {"num_train": 60, "num_validation": 20, "num_test": 60})
            specs = tuple(replace(spec, data=small) for spec in specs)
        elif data.endswith("-5k"):
            request.getfixturevalue("few")
            specs = tuple(replace(spec, data=_of_few(spec.data)) for spec in specs)
        elif data.startswith("cifar"):
            request.getfixturevalue("large")
        elif data == "fashion-mnist":
            request.getfixturevalue("clothes")
        elif data == "python-text":
            specs = tuple(replace(spec, data=_of_few(spec.data)) for spec in specs)
    for optimizer in {spec.optimizer.name: spec for spec in specs}.values():
        training = build(optimizer)
        steps = 2 if scale.startswith("paper") else 1
        for _ in range(steps):
            training.advance()
        assert training.step == steps


def _of_few(data: Part) -> Part:
    held = {"num_validation": 20} if "num_validation" in data.options else {}
    return Part(data.name, {**data.options, "num_train": 60, "num_test": 60, **held})


def test_axes_have_roles(tmp_path: Path) -> None:
    path = tmp_path / "why.toml"
    path.write_text(GOOD)
    everything = ("optimizer.name", "optimizer.lr", "optimizer.momentum", "batch_size")
    found = read_study(str(path)).axes
    assert (set(found["scientific"]), found["nuisance"], found["fixed"]) == (set(everything), ("seed",), ())
    roles = '[axes]\nscientific = ["optimizer"]\nnuisance = ["optimizer.lr", "seed"]\nfixed = ["batch_size"]\n'
    path.write_text(GOOD.replace("[scales.small]", roles + "[scales.small]"))
    found = read_study(str(path)).axes
    assert set(found["scientific"]) == {"optimizer.name", "optimizer.momentum"}
    assert (set(found["nuisance"]), found["fixed"]) == ({"optimizer.lr", "seed"}, ("batch_size",))
    for old, new, message in (
        ('"batch_size"', "", r"`batch_size` varies: say in \[axes\] whether it is scientific"),
        ("fixed", "fixd", r"Unknown key in \[axes\] 'fixd'"),
        ("batch_size", "nosuch", r"Unknown part of a run in \[axes\] 'nosuch'"),
        ("batch_size", "optimizer", r"\[axes\] names `optimizer` twice"),
    ):
        path.write_text(GOOD.replace("[scales.small]", roles.replace(old, new) + "[scales.small]"))
        with pytest.raises(ValueError, match=message):
            read_study(str(path))


@pytest.mark.parametrize("path", study_files().values(), ids=lambda path: path.stem)
def test_shipped_studies_mark_their_axes(path: Path) -> None:
    assert "[axes]" in path.read_text()


def test_studies_of_the_same_paper_share_their_runs_of_a_method() -> None:
    names = ("methods", "sam-versus-sgd", "rho-gamma", "flatness", "shift", "sam-variants", "combinations")
    specs = [spec for name in names for spec in read_study(name, scale="cifar-small").specs]
    methods = {(method_of(spec), spec.seed): spec.id for spec in specs}
    assert {spec.id for spec in specs} == set(methods.values())
    assert len(methods) == 84
    assert len(specs) == 162


def test_an_empty_table_in_the_grid_is_kept_and_takes_nothing_away(tmp_path: Path) -> None:
    told = "batch_size = [8, 16]\nobservers = { margins = false, scores = {}, posthoc = {}, reliability = {} }\n"
    common = 'observers = { posthoc = { maps = ["temperature"] }, reliability = false }, budget = 5'
    (tmp_path / "why.toml").write_text(
        GOOD.replace("batch_size = [8, 16]\n", told).replace("budget = 5", common).replace("coupling", "methods")
    )
    plain, asked = read_study(str(tmp_path / "why.toml"), scale="small").specs[1:3]
    assert "scores" not in plain.observers
    assert asked.observers["scores"] == asked.observers["reliability"] == {}
    assert asked.observers["posthoc"] == {"maps": ["temperature"]}


def test_a_list_that_a_grid_takes_for_an_axis_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "why.toml").write_text(GOOD + "model = { name = 'mlp', widths = [8, 16] }\n")
    assert main(["study", str(tmp_path / "why.toml"), "--out", str(tmp_path / "out"), "--no-page"]) == 2
    told = capsys.readouterr().err
    assert "got 8. In a study's grid a list is several values" in told
    assert "[[8, 16]]" in told


@pytest.mark.parametrize("name", ["../small", "..", "", "a/b"])
def test_a_scale_whose_folder_would_lie_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "why.toml").write_text(GOOD.replace("scales.small", f'scales."{name}"'))
    with pytest.raises(ValueError, match=f"a scale's name must be one that a folder can have, got '{name}'"):
        read_study(str(tmp_path / "why.toml"))


def test_a_study_below_a_file_is_refused_before_it_starts(tmp_path: Path) -> None:
    (tmp_path / "why.toml").write_text(GOOD)
    with pytest.raises(NotADirectoryError, match=re.escape(str(tmp_path / "why.toml"))):
        missing(read_study(str(tmp_path / "why.toml")), tmp_path / "why.toml" / "out")
