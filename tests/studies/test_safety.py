"""What may happen to a whole study; what may happen to one run is in tests/runs/test_run.py."""

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from surefoot.cli import main
from surefoot.cli.request import BadRequest, request
from surefoot.cli.watch import progress_table
from surefoot.files import locked
from surefoot.runs.folder import RunFolder
from surefoot.runs.spec import RunSpec
from surefoot.studies.engines.engine import Trial
from surefoot.studies.engines.local import LocalEngine

STUDY = """
title = "Why?"
analysis = "surefoot_papers.sam_calibration.methods"
[scales.digits]
about = "Small."
seeds = [0, 1]
[scales.digits.run]
budget = BUDGET
data = { name = "digits", num_train = 100 }
model = { name = "mlp", widths = [8] }
observers = { margins = false, curvature = false }
schedule = { every = 50, per_decade = 0 }
[[scales.digits.grid]]
optimizer = { name = "gd", lr = 0.1 }
"""
COMMAND = [sys.executable, "-m", "surefoot.cli", "study", "why.toml", "--workers", "1", "--no-page", "--json"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def heed_interrupts() -> None:
    """A suite started in the background ignores these, and its children would inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def start() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ, preexec_fn=heed_interrupts
    )


def wait_for_rows(num_lines: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found = [path.read_bytes().count(b"\n") for path in Path("runs").rglob("metrics.jsonl")]
        if sum(found) >= num_lines:
            return
        time.sleep(0.02)
    pytest.fail("no rows")


def rows_of_every_run() -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in Path("runs").rglob("metrics.jsonl")}


def uninterrupted() -> dict[str, bytes]:
    """What the study's runs measure when nothing happens; leaves no trace."""
    subprocess.run(COMMAND, check=True, capture_output=True)
    found = rows_of_every_run()
    shutil.rmtree("runs")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGHUP])  # Ctrl-C; a terminal that is closed
def test_kill_9_of_the_study_and_ctrl_c_lose_and_repeat_nothing(here: Path, stop: signal.Signals) -> None:
    Path("why.toml").write_text(STUDY.replace("BUDGET", "15000"))
    whole = uninterrupted()
    assert len(whole) == 2
    killed = start()
    wait_for_rows(5)
    killed.kill()
    killed.communicate()
    stopped = start()  # at once: the worker of the killed one must be gone
    wait_for_rows(45)
    stopped.send_signal(stop)
    _, told = stopped.communicate(timeout=120)
    assert stopped.returncode == 130, told
    assert b"the same command goes on from the last checkpoint" in told
    statuses = {RunFolder(path.parent).status for path in Path("runs").rglob("run.json")}
    assert "interrupted" in statuses
    done = subprocess.run(COMMAND, check=True, capture_output=True)
    found = json.loads(done.stdout)
    assert found["num_runs"] == {"done": 2}
    assert rows_of_every_run() == whole


@pytest.mark.slow
def test_two_studies_on_one_folder_do_everything_once(here: Path) -> None:
    Path("why.toml").write_text(STUDY.replace("BUDGET", "2000"))
    both = [start(), start()]
    told = [process.communicate(timeout=300) for process in both]
    codes = sorted(process.returncode for process in both)
    assert codes in ([0, 2], [0, 0]), told  # refused, or late and with nothing to do
    if codes == [0, 2]:
        assert any(b"Being written by another process" in err for _, err in told)
    for folder in map(RunFolder, Path("runs/why/digits/runs").iterdir()):
        steps = [row["step"] for row in folder.rows()[0]]
        assert steps == list(range(0, 2001, 50))
        assert folder.status == "done"


@pytest.mark.slow
def test_a_full_disk_fails_runs_and_the_same_trials_go_on_when_there_is_room(tmp_path: Path) -> None:
    tree = {"optimizer": {"name": "gd", "lr": 0.1}, "budget": 40, "data": {"name": "digits", "num_train": 100}}
    spec = RunSpec.from_dict({**tree, "model": {"name": "mlp", "widths": [8]}})
    trial = Trial(spec, tmp_path / spec.id)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, before[1]))
    try:
        ended = LocalEngine(1).run([trial], on_event=lambda event: None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert ended[spec.id].status == "failed"
    assert "File too large" in ended[spec.id].reason
    assert LocalEngine(1).run([trial], on_event=lambda event: None)[spec.id].status == "done"
    assert RunFolder(trial.folder).ended


@contextmanager
def small_disk(path: Path, *, size: str) -> Iterator[None]:
    """A file system of its own at `path`; skips where this process may not mount one."""
    path.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], capture_output=True)
    if made.returncode:
        pytest.skip("may not mount a file system here")
    try:
        yield
    finally:
        subprocess.run(["umount", str(path)], check=True)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="mounts a tmpfs")
def test_a_study_on_a_disk_that_gets_full_says_so_and_goes_on_when_there_is_room(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = STUDY.replace("BUDGET", "3000").replace("every = 50", "every = 5")
    Path("why.toml").write_text(text)
    whole = uninterrupted()
    with small_disk(here / "disk", size="300k"):
        monkeypatch.chdir(here / "disk")
        Path("why.toml").write_text(text)
        full = subprocess.run(COMMAND, capture_output=True, text=True)
        assert full.returncode in (1, 2)  # 2 where there was no room for the tables either
        assert "failed: OSError: [Errno 28] No space left on device" in full.stderr
        assert "Traceback" not in full.stderr
        subprocess.run(["mount", "-o", "remount,size=20m", str(here / "disk")], check=True)
        subprocess.run(COMMAND, check=True, capture_output=True)
        assert rows_of_every_run() == whole
        monkeypatch.chdir(here)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Without the right to write everywhere, which root has."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.slow
def test_a_read_only_folder_is_refused_in_one_sentence_and_can_be_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to others
        root = Path(name)
        monkeypatch.chdir(root)
        root.chmod(0o755)
        Path("why.toml").write_text(STUDY.replace("BUDGET", "20").replace("lr = 0.1", "lr = [0.1, 0.2]"))
        command = ["study", "why.toml", "--workers", "1", "--no-page", "--json"]
        assert main(command) == 0
        found = capsys.readouterr().out
        study = Path("runs/why/digits")
        before = {path: path.stat().st_mtime_ns for path in study.rglob("*")}
        folders = [study, *(path for path in study.rglob("*") if path.is_dir())]
        for path in before:
            path.chmod(0o555 if path.is_dir() else 0o444)
        study.chmod(0o555)
        with unprivileged():
            assert main(command) == 2
            told = capsys.readouterr()
            assert told.out == ""
            assert told.err.startswith("surefoot: Permission denied: ")
            assert told.err.count("\n") == 1
            assert main(["report", str(study), "--json", "--no-page"]) == 2  # it would write tables there
            assert "Permission denied" in capsys.readouterr().err
        assert {path: path.stat().st_mtime_ns for path in study.rglob("*")} == before
        for path in folders:
            path.chmod(0o755)
        assert main(["report", str(study), "--out", "elsewhere", "--json", "--no-page"]) == 0
        assert capsys.readouterr().out == found


@pytest.mark.parametrize("content", ["", "{}"])
def test_a_run_whose_record_cannot_be_read_is_named_and_done_again(
    here: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("my study.toml").write_text(STUDY.replace("BUDGET", "4"))
    command = ["study", "my study.toml", "--workers", "1", "--no-page", "--out", "out"]
    assert main(command) == 0
    broken = next(Path("out/runs").iterdir())
    before = (broken / "metrics.jsonl").read_bytes()
    (broken / "run.json").write_text(content)
    for reading in (["report", "out", "--no-page", "--archive", "--out", "kept"], ["diagnose", "out"]):
        assert main(reading) == 0
    told = capsys.readouterr()
    assert told.err.count(f"{broken} is damaged and left out.") == 2
    assert len(Path("kept/runs.jsonl").read_text().splitlines()) == 1
    assert [row[1] for row in progress_table(Path("out")).rows].count("damaged") == 1
    assert "damaged" in told.out
    assert "run.json cannot be read" in told.out
    assert main(["compare", "out", "", "gd"]) == 2
    assert "Unknown method ''" in capsys.readouterr().err
    assert main(command) == 0
    assert "1 to do" in capsys.readouterr().err
    assert RunFolder(broken).status == "done"
    assert (broken / "metrics.jsonl").read_bytes() == (broken / "metrics.jsonl.damaged").read_bytes() == before
    assert "Made by: surefoot study 'my study.toml' --scale digits" in Path("out/tables.md").read_text()


def test_a_value_that_changed_is_not_reported_and_its_run_done_again(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("why.toml").write_text(STUDY.replace("BUDGET", "4"))
    command = ["study", "why.toml", "--workers", "1", "--no-page", "--out", "out"]
    assert main(command) == 0
    rows = next(Path("out/runs").iterdir()) / "metrics.jsonl"
    before = rows.read_bytes()
    rows.write_bytes(before.replace(b'"test/ece": 0.', b'"test/ece": 9.', 1))
    assert main(["report", "out", "--no-page", "--out", "elsewhere"]) == 0
    assert "its rows are not those that it ended with" in capsys.readouterr().out
    assert main(["study", "why.toml", "--workers", "1", "--no-page", "--reuse", "out"]) == 0
    assert "1 runs of the study have ended elsewhere" in capsys.readouterr().err
    assert main(command) == 0
    assert "1 to do" in capsys.readouterr().err
    assert rows.read_bytes() == before


@pytest.mark.parametrize("content", ["[", "{}"])
def test_a_study_whose_record_is_damaged_gets_it_again(
    here: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("why.toml").write_text(STUDY.replace("BUDGET", "4"))
    command = ["study", "why.toml", "--workers", "1", "--no-page", "--out", "b"]
    assert main(command) == 0
    record = Path("b/study.json").read_bytes()
    Path("b/study.json").write_text(content)
    capsys.readouterr()
    assert main(command) == 0
    assert "0 to do" in capsys.readouterr().err
    assert Path("b/study.json").read_bytes() == record


def test_a_lock_is_told_with_its_folder_whatever_its_name(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("why.toml").write_text(STUDY.replace("BUDGET", "4"))
    with locked(Path("b")):  # a letter of the message
        assert main(["study", "why.toml", "--no-page", "--out", "b"]) == 2
    assert capsys.readouterr().err == "surefoot: Being written by another process: b.\n"


def test_an_error_without_a_file_ends_without_a_colon() -> None:
    with pytest.raises(BadRequest, match=r"^No space left on device\.$"), request():
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_record_that_the_disk_refuses_is_not_damage(tmp_path: Path) -> None:
    (tmp_path / "run.json").mkdir()
    with pytest.raises(IsADirectoryError):
        _ = RunFolder(tmp_path).status


def test_under_nohup_a_closed_terminal_is_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGHUP)
    try:
        for handler in (signal.SIG_IGN, signal.SIG_DFL):
            signal.signal(signal.SIGHUP, handler)
            assert main(["list", "losses"]) == 0
            assert (signal.getsignal(signal.SIGHUP) == signal.SIG_IGN) == (handler == signal.SIG_IGN)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)  # the second one of a terminal that is closed
    finally:
        signal.signal(signal.SIGHUP, before)
