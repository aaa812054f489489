"""Data to stdout, progress to stderr."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text

from surefoot.table import Table

if TYPE_CHECKING:
    from surefoot.runs.folder import RunFolder


def print_json(content: Any) -> None:
    """One JSON document on stdout."""
    print(json.dumps(content, indent=1))


def rich_table(table: Table) -> RichTable:
    """A table as rich draws it; nothing in it is taken for markup."""
    title = Text(table.title, style="bold")
    shown = RichTable(title=title, title_justify="left", show_edge=False, pad_edge=False)
    for column in table.columns:
        shown.add_column(Text(column), overflow="fold")
    for row in table.text_rows():
        shown.add_row(*map(Text, row))
    return shown


def print_table(table: Table) -> None:
    """A table on stdout, with its notes."""
    shown = rich_table(table)
    console = Console(
        highlight=False, markup=False, width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 160
    )
    console.print(shown)
    for note in table.notes:
        console.print(note, style="dim")
    console.print()


def print_run(folder: "RunFolder", *, json: bool) -> None:
    """A run's record and last observation on stdout."""
    from surefoot.report.run import last_observation
    from surefoot.runs.trajectory import Trajectory

    record = folder.record
    rows, notes = folder.rows()
    for note in notes:
        say(note)
    if json:
        print_json({**record, "path": str(folder.path), "num_rows": len(rows), "last": rows[-1] if rows else {}})
        return
    print_table(last_observation(Trajectory.of(folder.spec, rows), title=folder.spec.label))
    if (best := record.get("selected")) is not None:
        scores = ", ".join(f"{key} {best[f'test/{key}']:.3g}" for key in ("accuracy", "ece", "nll"))
        print(f"lowest validation nll at step {best['step']}: test {scores}; weights in {folder.selected.name}")
    if folder.damaged:
        say("Its rows are not those that it ended with: do it again.")
    print(f"{record['status']}{': ' + record['reason'] if record.get('reason') else ''}; run folder {folder.path}")


def say(sentence: str) -> None:
    """A sentence on stderr."""
    print(sentence, file=sys.stderr, flush=True)


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """A function that shows on a terminal's stderr what is being worked on."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda step: None
        return
    with console.status(what) as status:
        yield lambda step: status.update(f"{what} {step}")


class Bars:
    """Progress of runs on stderr: a line per ended run, and on a terminal bars for the running ones and for all."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}
        self._all = progress.add_task("all runs", total=total) if total > 1 else None
        self._total, self._ended = total, 0
        self._live = progress.console.is_terminal

    def start(self, key: str, label: str, total: int) -> None:
        """Show a run."""
        if key not in self._tasks:
            self._tasks[key] = self._progress.add_task(label, total=total)

    def update(self, key: str, done: int) -> None:
        """Move a run's bar."""
        self._progress.update(self._tasks[key], completed=done)

    def end(self, key: str, sentence: str) -> None:
        """Take a run's bar away and say how it ended."""
        self._progress.remove_task(self._tasks.pop(key))
        self._ended += 1
        if self._all is not None:
            self._progress.update(self._all, completed=self._ended)
        self.say(f"[{self._ended}/{self._total}] {sentence}")

    def say(self, sentence: str) -> None:
        """A sentence above the bars."""
        if self._live:
            self._progress.console.print(sentence, markup=False, highlight=False)
        else:
            say(sentence)


@contextmanager
def bars(total: int) -> Iterator[Bars]:
    """Progress bars for `total` runs."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield Bars(progress, total)
