"""Slurm's engine on submitit's local executor, which does jobs as processes of this machine."""

import os
import signal
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from surefoot.runs.folder import RunFolder
from surefoot.runs.run import run
from surefoot.runs.spec import RunSpec
from surefoot.studies.engines import make_engine
from surefoot.studies.engines.cluster import ClusterEngine, recorded_gradients
from surefoot.studies.engines.engine import Event, Trial
from surefoot.studies.engines.slurm import SlurmBackend

pytest.importorskip("submitit")


def spec(lr: float, **changes: Any) -> RunSpec:
    tree: dict[str, Any] = {"budget": 30, "data": {"name": "digits", "num_train": 100}}
    tree |= {"model": {"name": "mlp", "widths": [8]}, "schedule": {"every": 10, "per_decade": 0}}
    tree |= {"observers": {"margins": False, "curvature": False}}
    return RunSpec.from_dict({**tree, "optimizer": {"name": "gd", "lr": lr}, **changes})


class Watched(SlurmBackend):
    """Notes its jobs, and does something to the first one when it has begun.

    Each job is a process group of its own, so that it can be killed as Slurm kills one: with all its processes. The
    process of submitit alone would leave its child behind, which trains on and holds the run's folder.
    """

    handles: list[Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.handles = []
        self.begun = Path("nowhere")
        self.strike = lambda handle: None

    def submit(self, trial: Trial) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(subprocess, "Popen", partial(subprocess.Popen, start_new_session=True))
            self.handles.append(super().submit(trial))
        return self.handles[-1]

    def ended(self, handle: Any) -> Event | None:
        if len(self.handles) == 1 and self.begun.exists() and self.begun.stat().st_size:
            self.strike(handle)
        return super().ended(handle)


def backend(tmp_path: Path) -> Watched:
    return Watched(tmp_path / "jobs", 1, cluster="local")


@pytest.mark.slow
def test_jobs_end_with_the_same_bytes_and_a_killed_one_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("surefoot.studies.engines.cluster._PROGRESS", 0.1)
    long, diverging = spec(0.1, budget=8000), spec(1e30)
    trials = [Trial(item, tmp_path / "runs" / item.id) for item in (long, diverging)]
    watched = backend(tmp_path)
    watched.begun = trials[0].folder / "metrics.jsonl"
    watched.strike = lambda handle: os.killpg(handle._process.pid, signal.SIGKILL)
    events: list[Event] = []
    ended = ClusterEngine(watched).run(trials, on_event=events.append)
    assert [ended[trial.id].status for trial in trials] == ["done", "diverged"]
    come = [event.done for event in events if event.kind == "progress" and event.spec is long]
    assert 0 < max(come) <= 8000
    (lost,) = [event for event in events if event.kind == "lost"]
    assert "its job" in lost.reason
    assert len(watched.handles) == 3
    alone = RunFolder(tmp_path / "alone")
    run(long, alone)
    assert (trials[0].folder / "metrics.jsonl").read_bytes() == alone.metrics.read_bytes()


def test_how_far_a_run_has_come_is_read_from_its_last_whole_row(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    assert recorded_gradients(path) == 0
    path.write_text('{"gradients": 3}\n{"gradients": 7}\n{"gradients": 9')
    assert recorded_gradients(path) == 7
    path.write_text("broken\n")
    assert recorded_gradients(path) == 0


@pytest.mark.slow
def test_on_ctrl_c_jobs_save_and_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefoot.studies.engines.cluster._LEAVE", 600.0)  # however busy the machine is
    long = spec(0.1, budget=10**6)
    trial = Trial(long, tmp_path / long.id)
    trial.folder.mkdir()
    (trial.folder / "stop").touch()  # of an engine that was killed: no reason to stop
    watched = backend(tmp_path)
    watched.begun = trial.folder / "metrics.jsonl"

    def interrupt(handle: Any) -> None:
        watched.strike = lambda handle: None
        raise KeyboardInterrupt

    watched.strike = interrupt
    with pytest.raises(KeyboardInterrupt):
        ClusterEngine(watched).run([trial], on_event=lambda event: None)
    folder = RunFolder(trial.folder)
    assert folder.status == "interrupted"
    assert folder.checkpoint.exists()
    assert not (trial.folder / "stop").exists()


def test_where_there_is_no_slurm_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="Slurm cannot be used here"):
        make_engine("slurm", num_workers=1, logs=tmp_path / "jobs")
    with pytest.raises(ValueError, match="Slurm cannot be used here"):
        make_engine("slurm", num_workers=1, logs=tmp_path / "jobs", options=["timeout=3"])
