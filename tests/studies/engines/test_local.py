import os
import signal
from pathlib import Path
from typing import Any

import pytest

from surefoot.runs.folder import RunFolder
from surefoot.runs.run import run
from surefoot.runs.spec import RunSpec
from surefoot.studies.engines.engine import Event, Trial
from surefoot.studies.engines.local import LocalEngine

TINY: dict[str, Any] = {
    "budget": 30,
    "data": {"name": "digits", "num_train": 100},
    "model": {"name": "mlp", "widths": [8]},
    "schedule": {"every": 10, "per_decade": 2},
}


def spec(lr: float, **changes: Any) -> RunSpec:
    return RunSpec.from_dict({**TINY, "optimizer": {"name": "gd", "lr": lr}, **changes})


def trials(specs: list[RunSpec], root: Path) -> list[Trial]:
    return [Trial(item, root / item.id) for item in specs]


@pytest.mark.slow
def test_runs_all_and_a_failure_does_not_sink_the_rest(tmp_path: Path) -> None:
    good = [spec(0.1), spec(0.2), spec(1e30)]
    bad = spec(0.3, observers={"curvature": {"tolerance": -1.0}})  # `missing` would refuse it
    events: list[Event] = []
    ended = LocalEngine(2).run(trials([*good, bad], tmp_path), on_event=events.append)
    assert [ended[s.id].status for s in good] == ["done", "done", "diverged"]
    assert ended[bad.id].status == "failed"
    assert "`tolerance` must be positive" in ended[bad.id].reason
    assert sum(event.kind == "started" for event in events) == 4
    alone = RunFolder(tmp_path / "alone")
    run(good[0], alone)
    assert alone.metrics.read_bytes() == (tmp_path / good[0].id / "metrics.jsonl").read_bytes()


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_its_run_resumed(tmp_path: Path) -> None:
    long = spec(0.05, budget=1500, data={"name": "digits", "num_train": 1000}, model={"name": "mlp", "widths": [64]})
    engine = LocalEngine(1, checkpoint_seconds=0.05)
    events: list[Event] = []

    def on_event(event: Event) -> None:
        events.append(event)
        lost = sum(e.kind == "lost" for e in events)
        if event.kind == "progress" and lost == 0:
            os.kill(engine._workers[0].process.pid or 0, signal.SIGKILL)

    ended = engine.run(trials([long], tmp_path / "killed"), on_event=on_event)
    assert ended[long.id].status == "done"
    lost = [event for event in events if event.kind == "lost"]
    assert len(lost) == 1
    assert "killed by signal 9" in lost[0].reason
    whole = RunFolder(tmp_path / "whole")
    run(long, whole)
    assert whole.metrics.read_bytes() == (tmp_path / "killed" / long.id / "metrics.jsonl").read_bytes()


@pytest.mark.slow
def test_a_run_that_always_kills_its_worker_fails_after_three_tries(tmp_path: Path) -> None:
    long = spec(0.05, budget=100_000)
    engine = LocalEngine(1)

    def on_event(event: Event) -> None:
        if event.kind == "progress":
            os.kill(engine._workers[0].process.pid or 0, signal.SIGKILL)

    ended = engine.run(trials([long], tmp_path), on_event=on_event)
    assert ended[long.id].status == "failed"
    assert "its worker died" in ended[long.id].reason


@pytest.mark.slow
def test_ctrl_c_saves_and_leaves_no_process_behind(tmp_path: Path) -> None:
    long = spec(0.05, budget=100_000)
    engine = LocalEngine(1, checkpoint_seconds=1000.0)
    pids: list[int] = []

    def on_event(event: Event) -> None:
        if event.kind == "progress" and event.done > 20:
            pids.append(engine._workers[0].process.pid or 0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.run(trials([long], tmp_path), on_event=on_event)
    folder = RunFolder(tmp_path / long.id)
    assert folder.status == "interrupted"
    assert folder.checkpoint.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


@pytest.mark.slow
def test_a_worker_that_somebody_stops_is_replaced_and_its_run_resumed(tmp_path: Path) -> None:
    long = spec(0.05, budget=6000)
    engine = LocalEngine(1, checkpoint_seconds=1000.0)
    events: list[Event] = []

    def on_event(event: Event) -> None:
        events.append(event)
        if event.kind == "progress" and not any(e.kind == "lost" for e in events):
            os.kill(engine._workers[0].process.pid or 0, signal.SIGTERM)

    assert engine.run(trials([long], tmp_path), on_event=on_event)[long.id].status == "done"
    assert any(event.kind == "lost" for event in events)
    assert RunFolder(tmp_path / long.id).record["gradients"] == 6000


def test_no_workers_are_refused() -> None:
    with pytest.raises(ValueError, match="`workers` must be at least 1, got 0"):
        LocalEngine(0)
