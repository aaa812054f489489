"""`surefoot watch`: the page of runs while they are being written."""

import hashlib
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from surefoot.cli._terminal import say
from surefoot.cli.request import check_path, request
from surefoot.table import Cell, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surefoot.runs.stored import StoredRun

_FILES = ("run.json", "metrics.jsonl", "metrics.jsonl.gz")
_STUDY_FILES = ("study.json", "runs.jsonl")
_OPEN = ("running", "absent", "interrupted")


@dataclass
class WatchCommand:
    """Follow a run or a study while it is written: its page on this machine, or a table in the terminal.

    The page is served on 127.0.0.1 under an address with a token, which is printed; nothing can be changed through it.
    Ctrl-C ends it.

    Example: surefoot watch runs/coupling/digits
    """

    folder: tyro.conf.Positional[Path]
    """Folder of a run or a study."""
    terminal: bool = False
    """A table here instead of a page, for use over ssh; it ends when all runs have ended."""
    host: str = "127.0.0.1"
    """Address to serve on; anything but 127.0.0.1 lets other machines see the page if they know the token."""
    port: int = 0
    """Port to serve on; a free one if 0."""
    seconds: float = 2.0
    """Between two looks of the terminal's table."""

    def __call__(self) -> int:
        with request():
            check_path("folder", self.folder)
            if not 0 <= self.port <= 65535:
                raise ValueError(f"`--port` must lie in 0..65535, got {self.port}.")
            if not self.seconds > 0:
                raise ValueError(f"`--seconds` must be positive, got {self.seconds}.")
            if not (self.folder / "run.json").exists() and not (self.folder / "study.json").exists():
                raise ValueError(f"{self.folder} is not the folder of a run or a study.")
        try:
            return self._terminal() if self.terminal else self._page()
        except KeyboardInterrupt:
            say("surefoot: no longer watching.")
            return 0

    def _page(self) -> int:
        from surefoot.report.serve import Live, server

        with request():
            from surefoot.report.page import check_extra

            check_extra()
            live = Live(version=lambda: version(self.folder), make=lambda: live_page(self.folder))
            live.page()
            serving, address = server(live, host=self.host, port=self.port)
        if self.host != "127.0.0.1":
            say(f"Served on {self.host}: whoever can reach this machine and knows the address can read the page.")
        print(f"Watching {self.folder}: {address}", flush=True)
        with serving:
            serving.serve_forever()
        return 0

    def _terminal(self) -> int:
        from rich.console import Console
        from rich.live import Live as RichLive

        from surefoot.cli._terminal import print_table, rich_table

        if not sys.stdout.isatty():
            with request():
                print_table(progress_table(self.folder))
            return 0
        with RichLive(console=Console(), auto_refresh=False) as shown:
            while True:
                with request():
                    table = progress_table(self.folder)
                shown.update(rich_table(table), refresh=True)
                if not any(row[1] in _OPEN for row in table.rows):
                    return 0
                time.sleep(self.seconds)


def stored_runs(root: Path) -> "Sequence[StoredRun]":
    """The runs of a run's or a study's folder, those that exist; freshly read."""
    from surefoot.runs.folder import RunFolder
    from surefoot.studies.folder import StudyFolder

    return [RunFolder(root)] if (root / "run.json").exists() else StudyFolder(root).runs


def version(root: Path) -> str:
    """Changes whenever a record or a row is written."""
    runs = [root] if (root / "run.json").exists() else sorted((root / "runs").glob("*"))
    marks = []
    for path in [*(run / name for run in runs for name in _FILES), *(root / name for name in _STUDY_FILES)]:
        try:
            state = path.stat()
            marks.append(f"{state.st_size}.{state.st_mtime_ns}")
        except OSError:
            marks.append("-")
    return hashlib.sha256(" ".join(marks).encode()).hexdigest()[:16]


def live_page(root: Path) -> str:
    """The page of a run or a study as it is now, runs that still go on included."""
    from surefoot.diagnosis.diagnosis import diagnose
    from surefoot.diagnosis.facts import run_facts
    from surefoot.report.run import run_page
    from surefoot.report.study import study_page
    from surefoot.studies.folder import StudyFolder
    from surefoot.studies.study_outcome import study_outcome

    if (root / "run.json").exists():
        (stored,) = stored_runs(root)
        run, _ = stored.observed()
        facts = run_facts(run, status=stored.status, reason=stored.reason)
        return run_page(stored.record, run, diagnose(facts), live=True).html()
    folder = StudyFolder(root)
    begun = [run.observed()[0] for run in folder.runs if run.status != "damaged"]
    return study_page(study_outcome(folder), [run for run in begun if len(run)], live=True).html()


def progress_table(root: Path) -> Table:
    """How far every run is, and its last observation."""
    rows: list[tuple[Cell, ...]] = []
    keys = ("train/accuracy", "test/accuracy", "train/ece", "test/ece", "train/ggn_sharpness")
    for stored in stored_runs(root):
        if stored.status == "damaged":
            rows.append((stored.name, stored.status, *[None] * 6))
            continue
        run, _ = stored.observed()
        done = run.last("gradients")
        unplanned = stored.record.get("watched", {}).get("num_steps", 1) is None  # nobody said how long it will be
        share = None if math.isnan(done) or unplanned else f"{100 * done / run.spec.budget:.0f} %"
        values = [run.last(key) for key in keys]
        rows.append((run.spec.label, stored.status, share, *(None if math.isnan(x) else x for x in values)))
    columns = ("run", "status", "done", "train acc.", "test acc.", "train ECE", "test ECE", "GN sharpness")
    note = () if rows else ("No run has begun.",)
    return Table("watch", str(root), columns, tuple(rows), note)
