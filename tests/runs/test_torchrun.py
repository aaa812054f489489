import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from surefoot.runs.build import build, check
from surefoot.runs.control import RunControl
from surefoot.runs.folder import RunFolder
from surefoot.runs.run import run
from surefoot.runs.spec import RunSpec
from surefoot.studies.engines.engine import Trial

TINY: dict[str, Any] = {
    "budget": 12,
    "device": "cpu",
    "processes": 2,
    "batch_size": 25,
    "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9},
    "data": {"name": "digits", "num_train": 110},
    "model": {"name": "mlp", "widths": [8]},
    "schedule": {"every": 4, "per_decade": 0},
}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"loss": {"name": "mmce"}, "observers": {"curvature": False}}, "the loss mmce couples the samples of a batch"),
        ({"loss": {"name": "mixup"}, "observers": {"curvature": False}}, "mixup is more than a loss of logits"),
        ({"device": "auto"}, "on the CPU only, and `device` is 'auto'"),
        (
            {"ensemble": {"name": "deep_ensemble", "num_members": 2}, "observers": {"curvature": False}},
            "the ensemble deep_ensemble has several models",
        ),
        ({"optimizer": {"name": "csam", "lr": 0.1, "full_gap": 0.1}}, "`optimizer.full_gap` measures the gap"),
    ],
)
def test_what_processes_cannot_share_is_refused(changes: dict[str, Any], why: str) -> None:
    spec = RunSpec.from_dict({**TINY, **changes})
    with pytest.raises(ValueError, match=rf"`processes` must be 1, got 2: .*{why}"):
        check(spec)


def test_a_model_that_looks_at_the_whole_batch_is_refused() -> None:
    data = {"name": "digits", "num_train": 100, "images": True}
    with pytest.raises(ValueError, match="a batch norm, needs the whole batch"):
        build(RunSpec.from_dict({**TINY, "data": data, "model": {"name": "resnet", "depth": 8}}))


def test_one_process_keeps_its_name_and_two_have_another() -> None:
    one, two = (RunSpec.from_dict({**TINY, "processes": count}) for count in (1, 2))
    assert one.id == RunSpec.from_dict({key: value for key, value in TINY.items() if key != "processes"}).id
    assert one.id != two.id
    assert (Trial(two, Path()).processes, Trial(two, Path()).cpus, Trial(two, Path()).gpus) == (2, 2, 0)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds a process to kill in /proc")
def test_a_run_of_two_processes_measures_what_one_does_and_survives_a_death(tmp_path: Path) -> None:
    alone = RunFolder(tmp_path / "alone")
    tree = {**TINY, "budget": 1000, "schedule": {"every": 250, "per_decade": 0}}
    run(RunSpec.from_dict({**tree, "processes": 1}), alone)
    spec = RunSpec.from_dict(tree)
    folder = RunFolder(tmp_path / "two")
    killed: list[int] = []

    def strike() -> None:
        while not folder.checkpoint.exists():
            time.sleep(0.02)
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                command = path.read_bytes()
                if str(folder.path).encode() in command and b"torch.distributed.run" not in command:
                    os.kill(int(path.parent.name), signal.SIGKILL)
                    killed.append(int(path.parent.name))
                    return

    striker = threading.Thread(target=strike, daemon=True)
    striker.start()
    told: list[int] = []
    ended = run(
        spec, folder, control=RunControl(checkpoint_seconds=0.05, on_progress=lambda done, _: told.append(done))
    )
    assert ended.status == "done", ended.reason
    assert killed
    assert told
    one, two = alone.rows()[0], folder.rows()[0]
    assert [row["step"] for row in two] == [row["step"] for row in one] == list(range(0, 1001, 250))
    for first, second in zip(one, two, strict=True):
        for key in ("train/loss", "test/ece", "train/accuracy", "train/ggn_sharpness"):
            assert second[key] == pytest.approx(first[key], rel=0.03, abs=1e-3), key
    assert run(spec, folder).reused


@pytest.mark.slow
def test_two_processes_stop_on_request_and_go_on(tmp_path: Path) -> None:
    spec = RunSpec.from_dict({**TINY, "budget": 100_000, "observers": {"curvature": False}})
    folder = RunFolder(tmp_path / "run")
    told: list[int] = []
    ended = run(
        spec,
        folder,
        control=RunControl(on_progress=lambda done, _: told.append(done), should_stop=lambda: len(told) > 2),
    )
    assert ended.status == "interrupted"
    step = RunFolder(folder.path).record["gradients"]
    assert 0 < step < 100_000
    told.clear()
    run(
        spec,
        folder,
        control=RunControl(on_progress=lambda done, _: told.append(done), should_stop=lambda: len(told) > 2),
    )
    assert told[0] >= step
