import json
import math
from pathlib import Path

import pytest

from surefoot.cli import main
from surefoot.runs.folder import RunFolder
from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Row, Trajectory
from surefoot.studies.compare import compare, method_named

SGD, SAM = {"name": "sgd"}, {"name": "sam", "rho": 0.1}


def run(optimizer: dict[str, object], seed: int, ece: float, *, lr: float = 0.1, accuracy: float = 0.8) -> Trajectory:
    spec = RunSpec.from_dict({"optimizer": {"lr": lr, **optimizer}, "budget": 9, "seed": seed})
    last: Row = {"step": 9.0, "gradients": 9.0, "test/ece": ece, "test/accuracy": accuracy, "train/ece": ece}
    return Trajectory.of(spec, [{"step": 0.0, "gradients": 0.0, "test/ece": 0.9}, last])


def two(off: list[float]) -> list[Trajectory]:
    return [
        *(run(SGD, seed, 0.10 + 0.03 * seed) for seed in range(len(off))),
        *(run(SAM, seed, 0.10 + 0.03 * seed + value, accuracy=0.9) for seed, value in enumerate(off)),
    ]


def test_a_pair_by_hand() -> None:
    accuracy, ece = compare(two([-0.04, -0.06, -0.05]), "sam", "sgd")
    assert ece.quantity == "test/ece"
    assert ece.seeds == (0, 1, 2)
    assert (ece.first, ece.second) == (pytest.approx(0.08), pytest.approx(0.13))
    assert ece.difference == pytest.approx(-0.05)
    half = 4.302652729911275 * 0.01 / 3**0.5  # t of 2 degrees of freedom at 97.5 %
    assert ece.interval == (pytest.approx(-0.05 - half), pytest.approx(-0.05 + half))
    assert (ece.lower, ece.better, ece.verdict) == ("sam rho=0.1", "sam rho=0.1", "sam rho=0.1 is better")
    assert ece.to_dict()["verdict"] == "sam rho=0.1 is better"
    assert accuracy.lower == "sgd"
    assert (accuracy.quantity, accuracy.verdict) == ("test/accuracy", "sam rho=0.1 is better")  # higher


def test_the_verdict_turns_with_the_order_and_needs_the_whole_interval() -> None:
    pairs = compare(two([-0.04, -0.06, -0.05]), "sgd", "sam rho=0.1", quantities=["test/ece", "train/ece"])
    assert [pair.verdict for pair in pairs] == ["sam rho=0.1 is better", "sam rho=0.1 is lower"]
    assert [pair.better for pair in pairs] == ["sam rho=0.1", None]  # only a score of the test set can be better
    assert pairs[0].difference == pytest.approx(0.05)
    (wide,) = compare(two([-0.04, 0.06, -0.05]), "sam", "sgd", quantities=["test/ece"])
    assert (wide.lower, wide.better, wide.verdict) == (None, None, "inconclusive")
    (one,) = compare(two([-0.04]), "sam", "sgd", quantities=["test/ece"])
    assert (one.interval, one.verdict) == (None, "inconclusive")


def test_runs_of_one_seed_count_once_and_half_a_seed_not_at_all() -> None:
    runs = [
        run(opt, seed, ece + lr, lr=lr)
        for opt, ece in ((SGD, 0.2), (SAM, 0.1))
        for seed in (0, 1, 2)
        for lr in (0.1, 0.3)
    ]
    (pair,) = compare(runs, "sam", "sgd", quantities=["test/ece"])
    assert (pair.first, pair.seeds) == (pytest.approx(0.3), (0, 1, 2))
    (pair,) = compare(runs[:-1], "sam", "sgd", quantities=["test/ece"])  # seed 2 lacks a run of SAM
    assert pair.seeds == (0, 1)
    assert pair.runs_per_seed == (2, 2)
    assert pair.difference == pytest.approx(-0.1)


def test_names() -> None:
    runs = [*two([0.0]), run({"name": "sam", "rho": 0.2}, 0, 0.1)]
    assert method_named(runs, "sgd") == "sgd"
    assert method_named(runs, "sam rho=0.2") == "sam rho=0.2"
    with pytest.raises(ValueError, match=r"'sam' may be any of 2 methods: 'sam rho=0.1', 'sam rho=0.2'"):
        method_named(runs, "sam")
    with pytest.raises(ValueError, match=r"`a` and `b` must be two methods, got 'sgd' twice"):
        compare(runs, "sgd", "sgd")
    with pytest.raises(ValueError, match=r"Unknown quantity 'test/ecee'\. Did you mean 'test/ece'\?"):
        compare(runs, "sgd", "sam rho=0.1", quantities=["test/ecee"])
    apart = [*runs, run({"name": "asam"}, 7, 0.1)]
    with pytest.raises(ValueError, match="no seed in common with test/ece"):
        compare(apart, "sgd", "asam", quantities=["test/ece"])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # no line is broken
    runs = two([-0.04, -0.06, -0.05])
    names = {item.spec.id: item.spec.label for item in runs}
    about = {"study": "why", "scale": "small", "title": "Why?", "about": "", "outcome": "methods", "runs": names}
    (tmp_path / "study.json").write_text(json.dumps(about))
    for item in runs:
        folder = RunFolder(tmp_path / "runs" / item.spec.id)
        folder.path.mkdir(parents=True)
        record = {"id": item.spec.id, "label": item.spec.label, "status": "done", "gradients": 9}
        folder.write_record({**record, "spec": item.spec.to_dict()})
        for place in range(len(item)):
            folder.append({key: value for key, value in item.at(place).items() if not math.isnan(value)})
    assert main(["compare", str(tmp_path), "sam", "sgd", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["a"], printed["b"]) == ("sam rho=0.1", "sgd")
    assert printed["pairs"][1]["difference"] == pytest.approx(-0.05)
    assert main(["compare", str(tmp_path), "sam", "sgd"]) == 0
    text = capsys.readouterr().out
    assert "sam rho=0.1 is better" in text
    assert "do not count" not in text
    record = json.loads((tmp_path / "study.json").read_text())
    (tmp_path / "study.json").write_text(json.dumps({**record, "runs": {**record["runs"], "absent": "one more"}}))
    assert main(["compare", str(tmp_path), "sam", "sgd"]) == 0
    assert f"1 of the study's {len(record['runs']) + 1} runs are not done and do not count." in capsys.readouterr().out
    assert main(["compare", str(tmp_path), "sma", "sgd"]) == 2
    assert "Unknown method 'sma'. Did you mean 'sam'? Known: sam, sgd." in capsys.readouterr().err
    assert main(["compare", str(tmp_path / "runs"), "sam", "sgd"]) == 2
    assert "is not a study folder" in capsys.readouterr().err
