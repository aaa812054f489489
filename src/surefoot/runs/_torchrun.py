"""A run of several processes under torchrun: the first one writes, the others follow."""

import json
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import IO, Any

from surefoot.runs.control import RunControl
from surefoot.runs.result import RunResult
from surefoot.runs.spec import RunSpec

_TRIES = 3  # a run one of whose processes died is resumed, this often in all


def run_under_torchrun(spec: RunSpec, folder: Path, *, control: RunControl, rerun: bool) -> RunResult:
    """Do a run in `spec.processes` processes on this machine.

    Where one of them dies the others are ended too, and all start again from the last checkpoint.
    """
    for _ in range(_TRIES):
        request = {"spec": spec.to_dict(), "folder": str(folder), "seconds": control.checkpoint_seconds, "rerun": rerun}
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
                result = _listen(process, process.stdout, spec.budget, control)
            finally:
                process.stdout.close()  # whoever writes there from now on leaves
                process.wait()
            if result is not None:
                return result
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
    process: "subprocess.Popen[bytes]", stdout: IO[bytes], budget: int, control: RunControl
) -> RunResult | None:
    """Read the first process's messages until all are gone; None if it does not report how the run ended."""
    result = None
    asked = False
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        while True:
            if control.should_stop() and not asked:
                asked = True
                process.terminate()  # torchrun hands it on; the first process saves at the end of its step
            if not selector.select(timeout=0.2):
                continue
            line = stdout.readline()
            if not line:
                return result
            message = json.loads(line)
            if "done" in message:
                control.on_progress(message["done"], budget)
            else:
                result = RunResult(message["status"], message["reason"], tuple(message["notes"]), message["reused"])


def _send(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


def _main() -> int:
    import torch.distributed as dist

    from surefoot.runs.allocator import keep_freed_memory
    from surefoot.runs.folder import RunFolder
    from surefoot.runs.run import follow, run
    from surefoot.training.process_group import ProcessGroup

    leaving = False

    def leave(number: int, frame: FrameType | None) -> None:
        nonlocal leaving
        leaving = True

    signal.signal(signal.SIGTERM, leave)  # the others go on until the first one decides
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked = json.loads(sys.argv[1])
    spec, folder = RunSpec.from_dict(asked["spec"]), RunFolder(Path(asked["folder"]))
    keep_freed_memory()
    dist.init_process_group("gloo")
    group = ProcessGroup.current()
    if group.rank > 0:
        follow(spec, process_group=group)
        dist.destroy_process_group()
        return 0
    control = RunControl(
        checkpoint_seconds=asked["seconds"],
        on_progress=lambda done, _: _send({"done": done}),
        should_stop=lambda: leaving,
    )
    result = run(spec, folder, control=control, rerun=asked["rerun"], process_group=group)
    _send(asdict(result))
    if result.status == "failed":
        return 1  # torchrun ends the others, which may wait for this one
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(_main())
