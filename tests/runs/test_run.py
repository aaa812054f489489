import errno
import gzip
import itertools
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from surefoot.files import locked
from surefoot.runs import _recorder, provenance
from surefoot.runs import run as run_module
from surefoot.runs._recorder import RunRecorder
from surefoot.runs.control import RunControl
from surefoot.runs.folder import RunFolder
from surefoot.runs.run import run
from surefoot.runs.spec import RunSpec

TINY: dict[str, Any] = {
    "budget": 12,
    "optimizer": {"name": "gd", "lr": 0.5},
    "data": {"name": "digits", "num_train": 100},
    "model": {"name": "mlp", "widths": [8]},
    "schedule": {"every": 4, "per_decade": 2},
}


def make(tmp_path: Path, **changes: Any) -> tuple[RunSpec, RunFolder]:
    spec = RunSpec.from_dict({**TINY, **changes})
    return spec, RunFolder(tmp_path / spec.id)


def test_a_run_leaves_a_whole_folder(tmp_path: Path) -> None:
    spec, folder = make(tmp_path)
    ended = run(spec, folder)
    assert (ended.status, ended.reused) == ("done", False)
    rows, notes = folder.rows()
    assert [row["step"] for row in rows] == [0, 1, 3, 4, 8, 10, 12]
    assert not notes
    record = json.loads((folder.path / "run.json").read_text())
    assert record["status"] == "done"
    assert record["gradients"] == 12
    assert record["seed"] == 0
    assert {"torch", "numpy", "surefoot", "python"} <= set(record["versions"])
    assert record["hardware"]["cores"]
    assert RunSpec.from_dict(record["spec"]) == spec
    assert len((folder.path / "times.jsonl").read_text().splitlines()) == len(rows)


def test_a_second_call_computes_nothing(tmp_path: Path) -> None:
    spec, folder = make(tmp_path)
    run(spec, folder)
    before = {path.name: path.stat().st_mtime_ns for path in folder.path.iterdir()}
    assert run(spec, folder).reused
    assert {path.name: path.stat().st_mtime_ns for path in folder.path.iterdir() if path.name != "lock"} == {
        name: when for name, when in before.items() if name != "lock"
    }


def pretend_other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (run_module, _recorder, provenance):
        monkeypatch.setattr(module, "code_digest", lambda: "0123456789ab")


def test_other_code_is_reported_never_silently_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, folder = make(tmp_path)
    run(spec, folder)
    pretend_other_code(monkeypatch)
    ended = run(spec, folder)
    assert ended.reused
    assert "made by other code" in ended.notes[0]
    again = run(spec, folder, rerun=True)
    assert not again.reused
    assert folder.record["code"] == "0123456789ab"


def test_half_a_run_of_other_code_starts_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, folder = make(tmp_path)
    assert run(spec, folder, control=RunControl(should_stop=lambda: True)).status == "interrupted"
    pretend_other_code(monkeypatch)
    ended = run(spec, folder)
    assert "starts again" in ended.notes[0]
    assert [row["step"] for row in folder.rows()[0]] == [0, 1, 3, 4, 8, 10, 12]


def test_the_digest_covers_what_changes_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, text in [
        ("runs/run.py", "from surefoot.training import loop"),
        ("training/loop.py", "from surefoot.losses import L"),
        ("losses/__init__.py", "L = 1"),
        ("cli/x.py", "from surefoot.runs import run"),
    ]:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.setattr(provenance, "_PACKAGE", tmp_path)
    digests = []
    for path, text in [("losses/__init__.py", "L = 1"), ("cli/x.py", "pass"), ("losses/__init__.py", "L = 2")]:
        (tmp_path / path).write_text(text)
        digests.append(provenance.code_digest.__wrapped__())
    assert digests[0] == digests[1] != digests[2]


def test_divergence_keeps_what_was_measured(tmp_path: Path) -> None:
    spec, folder = make(tmp_path, optimizer={"name": "gd", "lr": 1e25})
    ended = run(spec, folder)
    assert ended.status == "diverged"
    assert "step" in ended.reason
    assert folder.rows()[0][0]["step"] == 0
    assert folder.record["status"] == "diverged"
    assert run(spec, folder).reused


def test_a_failure_is_a_status_with_its_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("no luck")

    monkeypatch.setattr(_recorder, "train", broken)
    spec, folder = make(tmp_path)
    ended = run(spec, folder)
    assert (ended.status, ended.reason) == ("failed", "RuntimeError: no luck")
    assert "no luck" in (folder.path / "error.txt").read_text()
    monkeypatch.undo()
    assert run(spec, folder).status == "done"
    assert not (folder.path / "error.txt").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9}, "batch_size": 7},
        {"optimizer": {"name": "adamw", "lr": 0.01}, "batch_size": 7, "loss": {"name": "mse"}},
    ],
    ids=["gd", "sgd", "adamw"],
)
def test_interrupted_at_every_step_ends_with_the_same_bytes(tmp_path: Path, changes: dict[str, Any]) -> None:
    spec, folder = make(tmp_path / "whole", **changes)
    run(spec, folder)
    _, pieces = make(tmp_path / "pieces", **changes)
    calls = 0
    while run(spec, pieces, control=RunControl(should_stop=lambda: True)).status != "done":
        calls += 1
    assert calls == 12
    assert pieces.metrics.read_bytes() == folder.metrics.read_bytes()


def test_broken_checkpoints_start_again_and_say_so(tmp_path: Path) -> None:
    spec, folder = make(tmp_path / "a")
    run(spec, folder)
    whole = folder.metrics.read_bytes()
    _, other = make(tmp_path / "b")
    run(spec, other, control=RunControl(should_stop=lambda: True))
    other.checkpoint.write_bytes(b"garbage")
    ended = run(spec, other, control=RunControl(should_stop=lambda: True))
    assert "is not a checkpoint" in ended.notes[0]
    other.metrics.write_bytes(b"")
    ended = run(spec, other)
    assert "shorter than its checkpoint" in ended.notes[0]
    assert other.metrics.read_bytes() == whole


def paused_twice(tmp_path: Path) -> tuple[RunSpec, RunFolder, bytes]:
    """A run with two checkpoints, and the bytes that it should end with."""
    spec, whole = make(tmp_path / "whole")
    run(spec, whole)
    _, folder = make(tmp_path / "paused")
    for _ in range(5):
        run(spec, folder, control=RunControl(should_stop=lambda: True))
    assert folder.checkpoint.exists()
    assert folder.previous.exists()
    return spec, folder, whole.metrics.read_bytes()


@pytest.mark.parametrize("damage", ["garbage", "cut", "a bit", "gone"])
def test_after_a_corrupted_checkpoint_the_one_before_is_used(tmp_path: Path, damage: str) -> None:
    spec, folder, whole = paused_twice(tmp_path)
    content = bytearray(folder.checkpoint.read_bytes())
    if damage == "garbage":
        folder.checkpoint.write_bytes(b"garbage")
    elif damage == "cut":
        folder.checkpoint.write_bytes(content[: len(content) // 2])
    elif damage == "a bit":
        content[-1000] ^= 1
        folder.checkpoint.write_bytes(content)
    else:
        folder.checkpoint.unlink()  # killed between the two renames
    ended = run(spec, folder)
    assert ended.status == "done"
    if damage == "gone":
        assert not ended.notes
    else:
        assert "is not a checkpoint" in ended.notes[0]
        assert ended.notes[1] == "The checkpoint before it is used, of step 4."
    assert folder.metrics.read_bytes() == whole
    assert not folder.previous.exists()


def test_after_two_corrupted_checkpoints_the_run_starts_again(tmp_path: Path) -> None:
    spec, folder, whole = paused_twice(tmp_path)
    for path in (folder.checkpoint, folder.previous):
        path.write_bytes(b"garbage")
    ended = run(spec, folder)
    assert len(ended.notes) == 2
    assert ended.notes[1].endswith("The run starts again.")
    assert folder.metrics.read_bytes() == whole


def test_a_corrupted_checkpoint_never_takes_the_place_of_a_whole_one(tmp_path: Path) -> None:
    spec, folder, whole = paused_twice(tmp_path)
    folder.checkpoint.write_bytes(b"garbage")
    assert run(spec, folder, control=RunControl(should_stop=lambda: True)).notes
    folder.checkpoint.write_bytes(b"garbage")
    ended = run(spec, folder)
    assert "of step 4" in ended.notes[1]
    assert folder.metrics.read_bytes() == whole


QUICK = {"observers": {"margins": False, "curvature": False}, "budget": 4, "schedule": {"every": 2, "per_decade": 0}}


@pytest.mark.slow
def test_a_full_disk_loses_nothing_whenever_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, whole = make(tmp_path / "whole", **QUICK)
    syncs, full = 0, -1

    def fsync(descriptor: int) -> None:
        nonlocal syncs
        syncs += 1
        if syncs == full:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    run(spec, whole, control=RunControl(checkpoint_seconds=0))
    total = syncs
    assert total > 15
    for full in range(1, total + 1):
        syncs = 0
        folder = RunFolder(tmp_path / str(full))
        with pytest.raises(OSError, match="No space left"):
            run(spec, folder, control=RunControl(checkpoint_seconds=0))
        assert run(spec, folder, control=RunControl(checkpoint_seconds=0)).status == "done"  # there is room again
        assert folder.metrics.read_bytes() == whole.metrics.read_bytes()
        assert not list(folder.path.glob("*.part"))


@pytest.mark.parametrize("room", [100, 500, 1300, 4000])
def test_half_a_write_is_no_write(tmp_path: Path, room: int) -> None:
    spec, whole = make(tmp_path / "whole", **QUICK)
    run(spec, whole)
    _, folder = make(tmp_path / "full")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))  # the system writes that much of a file, not more
    try:
        with pytest.raises(OSError, match="File too large"):
            run(spec, folder, control=RunControl(checkpoint_seconds=0))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert run(spec, folder).status == "done"
    assert folder.metrics.read_bytes() == whole.metrics.read_bytes()


def test_clocks_that_go_backwards_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, whole = make(tmp_path / "whole")
    run(spec, whole)
    _, folder = make(tmp_path / "pieces")
    wall, since_boot = time.time, time.monotonic
    seconds = []
    for hour in range(4):
        monkeypatch.setattr(time, "time", lambda hour=hour: wall() - 3600 * hour)
        monkeypatch.setattr(time, "monotonic", lambda hour=hour: since_boot() - 3600 * hour)  # as after a restart
        run(spec, folder, control=RunControl(should_stop=lambda: True))
        seconds.append(folder.record["seconds"])
        for path in folder.path.iterdir():
            os.utime(path, (wall() + 3600, wall() + 3600))  # and files from the future
    assert run(spec, folder).status == "done"
    assert seconds == sorted(seconds)
    assert 0 < seconds[-1] < 600
    assert folder.metrics.read_bytes() == whole.metrics.read_bytes()


@pytest.mark.parametrize("line", [b'{"step": 13, "train/e', b'{"step": 13, "train/ece": "low"}', b'{"train/ece": 0.1}'])
def test_a_line_that_is_no_row_is_skipped_with_a_note(tmp_path: Path, line: bytes) -> None:
    spec, folder = make(tmp_path)
    run(spec, folder)
    with folder.metrics.open("ab") as file:
        file.write(line)
    rows, notes = folder.rows()
    assert rows[-1]["step"] == 12
    assert len(notes) == 1
    assert "Line 8" in notes[0]


def without_second_row(content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join(lines[:1] + lines[2:])


DAMAGES = {
    "emptied": lambda content: b"",
    "cut off": lambda content: content[:900],
    "a row lost": without_second_row,
    "a value changed": lambda content: content.replace(b'"test/ece": 0.', b'"test/ece": 9.', 1),
    "a line garbled": lambda content: content.replace(b'{"step": 0', b'{"st\xff', 1),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_done_run_whose_rows_are_others_is_done_again(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    spec, folder = make(tmp_path)
    run(spec, folder)
    whole = folder.metrics.read_bytes()
    assert damage(whole) != whole
    folder.metrics.write_bytes(damage(whole))
    assert not folder.ended
    assert folder.damaged
    ended = run(spec, folder)
    assert not ended.reused
    assert "starts again" in ended.notes[0]
    assert folder.metrics.read_bytes() == whole
    assert (folder.path / "metrics.jsonl.damaged").read_bytes() == damage(whole)


def test_a_done_run_without_its_rows_is_done_again(tmp_path: Path) -> None:
    spec, folder = make(tmp_path)
    run(spec, folder)
    whole = folder.metrics.read_bytes()
    folder.metrics.unlink()
    assert "starts again" in run(spec, folder).notes[0]
    assert folder.metrics.read_bytes() == whole


@pytest.mark.parametrize(("damage", "is_damaged"), [("cut off", True), ("a line garbled", True), ("a row lost", False)])
def test_of_a_run_recorded_without_a_digest_the_rows_must_be_readable_to_the_end(
    tmp_path: Path, damage: str, is_damaged: bool
) -> None:
    spec, folder = make(tmp_path)
    run(spec, folder)
    folder.write_record({key: value for key, value in folder.record.items() if key != "metrics_sha256"})
    assert folder.ended
    folder.metrics.write_bytes(DAMAGES[damage](folder.metrics.read_bytes()))
    assert folder.damaged == is_damaged


def test_rows_that_changed_under_an_interrupted_run_are_not_gone_on_from(tmp_path: Path) -> None:
    spec, whole = make(tmp_path / "whole")
    run(spec, whole)
    _, folder = make(tmp_path / "pieces")
    calls = itertools.count()
    assert run(spec, folder, control=RunControl(should_stop=lambda: next(calls) == 5)).status == "interrupted"
    content = folder.metrics.read_bytes()
    folder.metrics.write_bytes(content.replace(b'"test/ece": 0.', b'"test/ece": 9.', 1))
    ended = run(spec, folder)
    assert "holds other rows than its checkpoint says" in ended.notes[0]
    assert folder.metrics.read_bytes() == whole.metrics.read_bytes()


def test_two_writers_are_refused(tmp_path: Path) -> None:
    spec, folder = make(tmp_path)
    with locked(folder.path), pytest.raises(BlockingIOError, match="another process"):
        run(spec, folder)


def packed(folder: RunFolder, target: Path) -> RunFolder:
    """The run with compressed rows, as archives held every run before a study had one file for all rows."""
    target.mkdir(parents=True)
    (target / "run.json").write_bytes((folder.path / "run.json").read_bytes())
    (target / "metrics.jsonl.gz").write_bytes(gzip.compress(folder.metrics.read_bytes(), mtime=0))
    return RunFolder(target)


def test_compressed_rows_are_read_as_the_plain_ones(tmp_path: Path) -> None:
    spec, folder = make(tmp_path)
    run(spec, folder)
    archived = packed(folder, tmp_path / "archive" / spec.id)
    assert archived.rows() == folder.rows()
    assert archived.record == folder.record
    assert archived.measured() == folder.measured() is not None


def test_a_folder_without_a_run_is_said_to_be_none(tmp_path: Path) -> None:
    for content in (None, b"", b"[]", b"{}", b"\xff", b'{"id": "a", "label": "b", "status": "done", "spec": null}'):
        if content is not None:
            (tmp_path / "run.json").write_bytes(content)
        with pytest.raises(ValueError, match="is not a run folder"):
            _ = RunFolder(tmp_path).record


class Killed(BaseException):
    """Stands for kill -9 at a chosen line: nothing catches it."""


def die(*_: Any, **__: Any) -> None:
    raise Killed


def test_killed_between_the_last_checkpoint_and_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, whole = make(tmp_path / "whole")
    run(spec, whole)
    _, folder = make(tmp_path / "killed")
    write = RunRecorder._write_record
    monkeypatch.setattr(
        RunRecorder,
        "_write_record",
        lambda self, status, reason="": (die if status == "done" else write)(self, status),
    )
    with pytest.raises(Killed):
        run(spec, folder)
    monkeypatch.undo()
    assert run(spec, folder).status == "done"
    assert folder.metrics.read_bytes() == whole.metrics.read_bytes()
    assert len((folder.path / "times.jsonl").read_text().splitlines()) == len(folder.rows()[0])


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_rerun_killed_while_it_clears_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    spec, folder = make(tmp_path)
    run(spec, folder)
    whole = folder.metrics.read_bytes()
    write = RunRecorder._write_record

    def record(self: Any, status: str, reason: str = "") -> None:
        if moment == "after":
            write(self, status, reason)
        die()

    monkeypatch.setattr(RunRecorder, "_write_record", record)
    with pytest.raises(Killed):
        run(spec, folder, rerun=True)
    monkeypatch.undo()
    assert RunFolder(folder.path).status == ("done" if moment == "before" else "running")
    assert folder.metrics.read_bytes() == whole
    assert run(spec, RunFolder(folder.path)).status == "done"
    assert folder.metrics.read_bytes() == whole


def test_a_rerun_in_an_archive_replaces_its_rows(tmp_path: Path) -> None:
    spec, folder = make(tmp_path)
    run(spec, folder)
    archived = packed(folder, tmp_path / "archive")
    (archived.path / "metrics.jsonl.gz").write_bytes(gzip.compress(b'{"step": 0}\n'))
    run(spec, archived, rerun=True)
    assert not (archived.path / "metrics.jsonl.gz").exists()
    assert archived.rows() == folder.rows()


def test_other_versions_are_reported_and_not_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, folder = make(tmp_path)
    run(spec, folder, control=RunControl(should_stop=lambda: True))
    monkeypatch.setattr(provenance, "versions", lambda: {"torch": "0.1"})
    ended = run(spec, folder)
    assert "begun by other versions" in ended.notes[0]
    assert len(folder.rows()[0]) == 7


def test_rows_that_cannot_be_unpacked_are_a_note(tmp_path: Path) -> None:
    for content in (b"", b"\x1f\x8b", gzip.compress(b'{"step": 0}\n')[:-9] + b"garbage??"):
        (tmp_path / "metrics.jsonl.gz").write_bytes(content)
        rows, notes = RunFolder(tmp_path).rows()
        assert rows == []
        assert len(notes) == 1 or content == b""


KILLED = """
import sys
from collections.abc import Callable
from pathlib import Path
from surefoot.runs.control import RunControl
from surefoot.runs.folder import RunFolder
from surefoot.runs.run import run
from surefoot.runs.spec import RunSpec
spec = RunSpec.from_toml(Path(sys.argv[1]))
print("begin", flush=True)
print(run(spec, RunFolder(Path(sys.argv[2])), control=RunControl(checkpoint_seconds=0.05)).status, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["gd", "adamw"])
def test_sigkill_at_random_moments_loses_nothing(tmp_path: Path, optimizer: str) -> None:
    changes = {"optimizer": {"name": optimizer, "lr": 0.05 if optimizer == "gd" else 0.003}, "budget": 400}
    changes |= {"model": {"name": "mlp", "widths": [64, 64]}, "data": {"name": "digits", "num_train": 600}}
    if optimizer == "adamw":
        changes["batch_size"] = 50
    spec, whole = make(tmp_path / "whole", **changes)
    begun = time.monotonic()
    run(spec, whole)
    duration = time.monotonic() - begun
    (tmp_path / "spec.toml").write_text(spec.to_toml())
    folder = RunFolder(tmp_path / "killed")
    random.seed(optimizer)
    kills = 0
    for attempt in range(60):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path / "spec.toml"), str(folder.path)],
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "begin\n"
        if attempt < 6:
            time.sleep(random.uniform(0.2, 1.0) * duration)
            process.send_signal(signal.SIGKILL)
        status = process.stdout.read()
        process.stdout.close()
        if process.wait() == -signal.SIGKILL:
            kills += 1
            continue
        assert status == "done\n"
        break
    assert kills >= 2
    assert folder.metrics.read_bytes() == whole.metrics.read_bytes()
