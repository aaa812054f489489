"""A run of several processes: started under torchrun, the first one writes, the others follow."""

import json
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import IO, Any

from surefoot.runs.result import Ended
from surefoot.runs.spec import RunSpec

_TRIES = 3  # a run one of whose processes died is resumed, this often in all


def launched(
    spec: RunSpec,
    folder: Path,
    *,
    checkpoint_seconds: float,
    rerun: bool,
    on_progress: Callable[[int, int], None],
    should_stop: Callable[[], bool],
) -> Ended:
    """Do a run in `spec.processes` processes under torchrun on this machine, and return how it ended.

    Where one of them dies the others are ended too, and all start again from the last checkpoint.
    """
    for _ in range(_TRIES):
        request = {"spec": spec.to_dict(), "folder": str(folder), "seconds": checkpoint_seconds, "rerun": rerun}
        with tempfile.TemporaryFile() as errors:
            command = [*_torchrun(spec.processes), "-m", "surefoot.runs._torchrun", json.dumps(request)]
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                start_new_session=True,  # Ctrl-C is for the caller, who asks for a checkpoint
            )
            assert process.stdout is not None
            try:
                ended = _listen(process, process.stdout, spec.budget, on_progress, should_stop)
            finally:
                process.stdout.close()  # whoever writes there from now on leaves
                process.wait()
            if ended is not None:
                return ended
            errors.seek(0)
            last = errors.read().decode(errors="replace").strip().splitlines()[-1:] or [""]
        rerun = False  # what was begun again is gone on with
    raise RuntimeError(f"Its processes died {_TRIES} times (exit code {process.returncode}): {last[0]}")


def _torchrun(num_processes: int) -> list[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = ["--nnodes=1", "--master-addr=127.0.0.1", f"--master-port={port}"]
    return [sys.executable, "-m", "torch.distributed.run", *where, f"--nproc-per-node={num_processes}"]


def _listen(
    process: "subprocess.Popen[bytes]",
    stdout: IO[bytes],
    budget: int,
    on_progress: Callable[[int, int], None],
    should_stop: Callable[[], bool],
) -> Ended | None:
    """What the first process says until all are gone; None if it does not say how the run ended."""
    ended = None
    asked = False
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        while True:
            if should_stop() and not asked:
                asked = True
                process.terminate()  # torchrun hands it on; the first process saves at the end of its step
            if not selector.select(timeout=0.2):
                continue
            line = stdout.readline()
            if not line:
                return ended
            said = json.loads(line)
            if "done" in said:
                on_progress(said["done"], budget)
            else:
                ended = Ended(said["status"], said["reason"], tuple(said["notes"]), said["reused"])


def _say(thing: dict[str, Any]) -> None:
    print(json.dumps(thing), flush=True)


def _main() -> int:
    import torch.distributed as dist

    from surefoot.runs.allocator import keep_freed_memory
    from surefoot.runs.folder import RunFolder
    from surefoot.runs.run import follow, run
    from surefoot.training.process_group import Processes

    leaving = False

    def leave(number: int, frame: FrameType | None) -> None:
        nonlocal leaving
        leaving = True

    signal.signal(signal.SIGTERM, leave)  # the others go on until the first one says so
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked = json.loads(sys.argv[1])
    spec, folder = RunSpec.from_dict(asked["spec"]), RunFolder(Path(asked["folder"]))
    keep_freed_memory()
    dist.init_process_group("gloo")
    processes = Processes.here()
    if processes.rank > 0:
        follow(spec, processes=processes)
        dist.destroy_process_group()
        return 0
    ended = run(
        spec,
        folder,
        checkpoint_seconds=asked["seconds"],
        rerun=asked["rerun"],
        on_progress=lambda done, _: _say({"done": done}),
        should_stop=lambda: leaving,
        processes=processes,
    )
    _say({"status": ended.status, "reason": ended.reason, "notes": ended.notes, "reused": ended.reused})
    if ended.status == "failed":
        return 1  # torchrun ends the others, which may wait for this one
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(_main())
