import json
import time
from pathlib import Path
from typing import Any

import pytest

from surefoot.cli import main
from surefoot.runs.folder import RunFolder
from surefoot.runs.run import run
from surefoot.runs.spec import RunSpec
from surefoot.studies import plan as plan_module
from surefoot.studies.cost import Cost, kind, measured
from surefoot.studies.engines.engine import Trial
from surefoot.studies.plan import duration, layers, plan

STUDY = """
title = "Why?"
analysis = "surefoot_papers.sam_calibration.methods"
[scales.digits]
about = "Small."
seeds = [0, 1]
[scales.digits.run]
budget = 20
data = { name = "digits", num_train = 100 }
model = { name = "mlp", widths = [8] }
observers = { margins = false, curvature = false }
[[scales.digits.grid]]
optimizer = { name = "gd", lr = [0.1, 0.2] }
[[scales.digits.grid]]
optimizer = { name = "sam", lr = 0.1, rho = 0.05 }
"""


def spec(lr: float = 0.1, **changes: Any) -> RunSpec:
    tree = {"budget": 12, "data": {"name": "digits", "num_train": 100}, "model": {"name": "mlp", "widths": [8]}}
    return RunSpec.from_dict({**tree, "optimizer": {"name": "gd", "lr": lr}, **changes})


def test_times() -> None:
    assert [duration(text) for text in ("90s", "30m", "1h30m", "2d")] == [90, 1800, 5400, 172800]
    for bad in ("", "30", "m", "-3m", "3 m", "3m x", "0m"):
        with pytest.raises(ValueError, match="`budget` must be a time"):
            duration(bad)


def test_kinds_tell_apart_what_costs_differently() -> None:
    alike = [spec(), spec(0.2), spec(seed=3), spec(budget=99), spec(loss={"name": "cross_entropy"})]
    assert len({kind(item) for item in alike}) == 1
    others = [
        spec(batch_size=5),
        spec(model={"name": "mlp", "widths": [9]}),
        spec(optimizer={"name": "sam", "lr": 0.1, "rho": 0.1}),
        spec(observers={"curvature": False}),
    ]
    assert len({kind(item) for item in [*others, spec()]}) == 5


def test_a_cost_adds_up() -> None:
    cost = Cost(start=5, first_observation=3, observation=2, gradient=0.5, gradients_per_step=2)
    item = spec(budget=40, schedule={"every": 5, "per_decade": 0})  # 20 steps, observed at 0, 5, 10, 15 and 20
    assert cost.of(item) == 5 + 3 + 4 * 2 + 40 * 0.5


@pytest.mark.slow
def test_an_estimate_is_near_what_the_run_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for clock in ("monotonic", "perf_counter"):  # seconds of the processor: other processes have no part in them
        monkeypatch.setattr(time, clock, time.process_time)
    item = spec(
        budget=300,
        data={"name": "digits", "num_train": 1000},
        model={"name": "mlp", "widths": [128, 128]},
        schedule={"every": 50, "per_decade": 0},
        observers={"margins": False, "curvature": False},
    )
    measured(item)  # what torch does only once
    expected = measured(item).of(item)
    begun = time.monotonic()
    run(item, RunFolder(tmp_path / "run"))
    assert 0.25 < expected / (time.monotonic() - begun) < 4  # busy cores have colder caches


def test_sam_is_known_to_take_two_gradients_a_step() -> None:
    found = measured(spec(optimizer={"name": "sam", "lr": 0.1, "rho": 0.05}))
    assert found.gradients_per_step == 2
    assert found.gradient > 0
    assert not found.failure


def test_a_kind_that_diverges_at_once_costs_its_first_steps() -> None:
    found = measured(spec(1e30))
    assert found.failure.startswith("diverged")
    assert found.of(spec(1e30, budget=10**6)) == found.start < 60


def test_layers_are_breadth_first() -> None:
    sam = {"name": "sam", "lr": 0.1, "rho": 0.05}
    specs = [
        item for seed in (5, 2) for item in (spec(0.1, seed=seed), spec(0.2, seed=seed), spec(optimizer=sam, seed=seed))
    ]
    found = [
        [(item.seed, item.optimizer.name, item.optimizer.options["lr"]) for item in layer] for layer in layers(specs)
    ]
    assert found == [
        [(5, "gd", 0.1), (5, "sam", 0.1)],
        [(5, "gd", 0.2)],
        [(2, "gd", 0.1), (2, "sam", 0.1)],
        [(2, "gd", 0.2)],
    ]


def test_the_largest_part_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    sam = {"name": "sam", "lr": 0.1, "rho": 0.05}
    specs = [
        item for seed in (0, 1) for item in (spec(0.1, seed=seed), spec(0.2, seed=seed), spec(optimizer=sam, seed=seed))
    ]
    each = {"gd": 10.0, "sam": 30.0}  # seconds
    monkeypatch.setattr(
        plan_module,
        "costs",
        lambda specs, on_progress: {kind(s): Cost(each[s.optimizer.name], 0, 0, 0, 1) for s in specs},
    )
    todo = [Trial(item, Path("nowhere")) for item in specs]

    def chosen(seconds: float | None, *, num_workers: int = 1, skip: int = 0) -> tuple[list[tuple[int, str]], float]:
        found = plan(specs, todo[skip:], num_workers=num_workers, seconds=seconds)
        assert {t.id for t in found.trials} | {t.id for t in found.left_out} == {t.id for t in todo[skip:]}
        assert seconds is None or found.wall_seconds <= seconds
        return [(t.spec.seed, t.spec.optimizer.name) for t in found.trials], found.wall_seconds

    assert chosen(None) == ([(s.seed, s.optimizer.name) for s in specs], 100.0)
    assert chosen(101.0)[1] == 100.0
    assert chosen(51.0) == ([(0, "gd"), (0, "sam"), (0, "gd")], 50.0)
    assert chosen(25.0) == ([(0, "gd")], 10.0)  # the first layer is not whole: no second seed of gd in place of sam
    assert chosen(31.0, num_workers=2) == ([(0, "gd"), (0, "sam"), (0, "gd"), (1, "gd")], 30.0)
    assert chosen(61.0, skip=3)[0] == [(1, "gd"), (1, "sam"), (1, "gd")]  # the first seed has ended
    with pytest.raises(ValueError, match=r"`budget` must be at least about 10.0 s, got 5.0 s: no run fits"):
        chosen(5.0)


def test_a_dry_run_leaves_nothing_and_asks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked"))
    Path("why.toml").write_text(STUDY)
    assert main(["study", "why.toml", "--dry-run", "--json", "--workers", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["num_runs"], found["num_to_do"], found["num_left_out"]) == (6, 6, 0)
    assert found["num_kinds"] == 2
    assert 0 < found["hours"] <= found["core_hours"] < 1
    assert [item["state"] for item in found["runs"]] == ["to do"] * 6
    assert main(["study", "why.toml", "--dry-run"]) == 0
    told = capsys.readouterr()
    assert "sam rho=0.05 lr=0.1 seed=1" in told.out
    assert "hours" in told.err
    assert "Measuring a few steps of each of 2 kinds of runs" in told.err
    assert [path.name for path in tmp_path.iterdir()] == ["why.toml"]
    assert main(["study", "why.toml", "--budget", "soon"]) == 2
    assert "`budget` must be a time such as 30m" in capsys.readouterr().err


def test_a_budget_that_measuring_uses_up_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 11.0])
    monkeypatch.setattr(plan_module.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr("surefoot.studies.cost.measured", lambda spec: Cost(1, 0, 0, 0, 1))
    todo = [Trial(spec(optimizer={"name": name, "lr": 0.1}), Path("nowhere")) for name in ("gd", "muon", "adamw")]
    told: list[tuple[int, int]] = []
    with pytest.raises(ValueError, match=r"must be longer: 10.0 s went by measuring 1 of 3 kinds"):
        plan([t.spec for t in todo], todo, num_workers=1, seconds=10.0, on_progress=lambda *seen: told.append(seen))
    assert told == [(0, 3)]


@pytest.mark.slow
def test_a_study_within_a_budget_is_partial_and_can_be_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("why.toml").write_text(STUDY)
    known = {"gd": 100.0, "sam": 200.0}
    monkeypatch.setattr(
        plan_module,
        "costs",
        lambda specs, on_progress: {kind(s): Cost(known[s.optimizer.name], 0, 0, 0, 1) for s in specs},
    )
    command = ["study", "why.toml", "--workers", "1", "--json", "--no-page"]
    assert main([*command, "--budget", "7m"]) == 0
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert "3 runs do not fit and are left out: gd lr=0.1 seed=1" in told.err
    assert found["partial"]
    assert found["num_runs"] == {"done": 3, "missing": 3}
    assert found["seeds"] == [0]
    assert "partial: some runs are still to do" in Path("runs/why/digits/tables.md").read_text()
    assert main(command) == 0
    whole = json.loads(capsys.readouterr().out)
    assert (whole["partial"], whole["num_runs"]) == (False, {"done": 6})
