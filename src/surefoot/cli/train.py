"""`surefoot train`: one run from a spec file."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import tyro

from surefoot.cli._terminal import bars, print_run, say
from surefoot.cli.request import request


@dataclass
class TrainCommand:
    """Train one network as a spec file says, watching calibration, margins and curvature.

    The run lands in a folder named by the hash of its spec. Called again it resumes where it stopped, or computes
    nothing if it had result.

    Example: surefoot train spec.toml --set optimizer.lr=0.1 --set seed=3
    """

    spec: tyro.conf.Positional[Path]
    """TOML file, for example `budget = 500` and `optimizer = {name = "gd", lr = 0.1}`; the rest has defaults."""
    overrides: Annotated[list[str], tyro.conf.arg(name="set", metavar="KEY=VALUE"), tyro.conf.UseAppendAction] = field(
        default_factory=list
    )
    """Change a key of the spec, as in optimizer.lr=0.1; may be given several times."""
    out: Path = Path("runs/train")
    """Folder to put the run's folder in."""
    rerun: bool = False
    """Do the run again even if it had result."""
    json: bool = False
    """Print the run's record and last row as JSON."""

    def __call__(self) -> int:
        from surefoot.files import locked
        from surefoot.runs.folder import RunFolder
        from surefoot.runs.spec import RunSpec
        from surefoot.runs.toml import read_toml, set_key

        with request():
            tree = read_toml(self.spec)
            for assignment in self.overrides:
                set_key(tree, assignment)
            spec = RunSpec.from_dict(tree)
            from surefoot.runs.allocator import keep_freed_memory
            from surefoot.runs.control import RunControl
            from surefoot.runs.preflight import preflight
            from surefoot.runs.run import run

            preflight([spec])
            folder = RunFolder(self.out / spec.id)
            with locked(folder.path):
                pass  # a folder that another process holds is a bad request
        keep_freed_memory()
        with bars(1) as shown, _stop_flag() as stop:
            shown.start(spec.id, spec.label, spec.budget)
            try:
                control = RunControl(on_progress=lambda done, _: shown.update(spec.id, done), should_stop=stop)
                result = run(spec, folder, control=control, rerun=self.rerun)
            except OSError as error:
                say(f"surefoot: the run stopped: {error}")
                return 1
        for note in result.notes:
            say(note)
        if result.reused:
            say(f"{spec.label} had ended ({result.status}); nothing was computed.")
        print_run(folder, json=self.json)
        if result.status == "interrupted":
            raise KeyboardInterrupt
        return 0 if result.status == "done" else 1


@contextmanager
def _stop_flag() -> Iterator[Any]:
    """A function that says whether Ctrl-C was pressed; the run then ends after its step, with a checkpoint."""
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked and number != signal.SIGHUP:  # which a terminal that is closed may send twice
            raise KeyboardInterrupt  # twice: at once
        asked = True

    asking = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup has it
        asking.append(signal.SIGHUP)
    before = {number: signal.signal(number, ask) for number in asking}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
