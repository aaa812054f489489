"""`surefoot data`: data sets, stored and fetched."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from surefoot.cli._terminal import print_json, print_table, say
from surefoot.cli.request import request
from surefoot.table import Cell, Table


@dataclass
class FetchCommand:
    """Fetch a data set, checked against known digests, and store it.

    What breaks off is kept, and the same command goes on from there. Stored in the folder that SUREFOOT_DATA names,
    else in the cache folder.

    Example: surefoot data fetch cifar10
    """

    name: tyro.conf.Positional[str]
    """cifar10, fashion-mnist or mnist."""
    into: Path | None = None
    """Another folder to store it in."""

    def __call__(self) -> int:
        with request():
            from surefoot.data.data_store import data_store
            from surefoot.data.fetching import Damaged, NoSpace, Unreachable, fetch

            folder = self.into or data_store()
            try:
                with _progress(self.name) as on_bytes:
                    path = fetch(self.name, folder, on_bytes=on_bytes, say=say)
            except (Damaged, NoSpace, Unreachable) as error:
                say(f"surefoot: {error}")
                return 1
        print(path)
        return 0


@dataclass
class StoredCommand:
    """List the data sets that can be fetched: which are stored, where, and on what terms.

    Example: surefoot data list
    """

    json: bool = False
    """Print them as JSON."""

    def __call__(self) -> int:
        from surefoot.data.data_store import data_store
        from surefoot.data.fetching import FETCHABLE

        rows: list[tuple[Cell, ...]] = []
        for name, each in FETCHABLE.items():
            path = data_store() / f"{name}.npz"
            state = str(path) if path.is_file() else f"absent: surefoot data fetch {name}"
            rows.append((name, state, f"{each.num_bytes / 1e6:.0f} MB", each.license))
        columns = ("name", "stored", "size", "license")
        if self.json:
            print_json([dict(zip(columns, row, strict=True)) for row in rows])
        else:
            print_table(Table("data", f"Data sets to fetch, stored in {data_store()}", columns, tuple(rows)))
        return 0


@dataclass
class DataCommand:
    """Fetch data sets, and list those that are stored."""

    command: (
        Annotated[FetchCommand, tyro.conf.subcommand("fetch")] | Annotated[StoredCommand, tyro.conf.subcommand("list")]
    )

    def __call__(self) -> int:
        return self.command()


@contextmanager
def _progress(name: str) -> Iterator[Callable[[int, int | None], None]]:
    """A function that shows on a terminal's stderr how many bytes came."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(name, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
