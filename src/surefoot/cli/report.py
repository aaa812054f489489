"""`surefoot report`: tables and page again, from what a folder holds."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from surefoot.cli._terminal import print_json, print_run, print_table, say
from surefoot.cli.request import check_path, request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surefoot.runs.folder import RunFolder
    from surefoot.runs.trajectory import Trajectory
    from surefoot.studies.folder import StudyFolder
    from surefoot.studies.study_outcome import StudyOutcome


@dataclass
class ReportCommand:
    """Make the tables and the page of a study's folder again, without running anything; or those of a single run.

    Example: surefoot report results/coupling/cifar-small
    """

    folder: tyro.conf.Positional[Path]
    """A study's folder, or a single run's."""
    out: Path | None = None
    """Where to write; into the folder itself if not given."""
    archive: bool = False
    """Write the study to `out` for keeping: its record, all runs' records, all rows compressed, and the tables."""
    no_page: bool = False
    """Leave out the HTML page, which needs the extra `report`."""
    figures: tuple[Literal["svg", "pdf", "png"], ...] = ()
    """Write every panel as a figure of a column's width to the folder `figures`, in these formats."""
    json: bool = False
    """Print the outcome as JSON."""

    def __call__(self) -> int:
        from surefoot.report.page import check_extra

        with request():
            check_path("folder", self.folder)
            if self.figures or not self.no_page:
                check_extra()
            return self._run() if (self.folder / "run.json").exists() else self._study()

    def _run(self) -> int:
        from surefoot.runs.folder import RunFolder

        run = RunFolder(self.folder)
        print_run(run, json=self.json)
        measured = run.measured_trajectory()
        self._draw([] if measured is None else [measured])
        if not self.no_page:
            path = write_run_page(run, self._out)
            (say if self.json else print)(f"Report: {path.resolve()}")
        return 0

    def _study(self) -> int:
        from surefoot.studies.folder import StudyFolder
        from surefoot.studies.study_outcome import study_outcome

        if self.archive and self._out.resolve() == self.folder.resolve():
            raise ValueError("`--archive` needs `--out`, a folder to copy to.")
        folder = StudyFolder(self.folder)
        study = study_outcome(folder)
        self._out.mkdir(parents=True, exist_ok=True)
        if self.archive:
            self._archive(folder)
        self._draw(folder.trajectories)
        show(study, folder, self._out, page=not self.no_page, json=self.json, archive=self.archive)
        return 0

    @property
    def _out(self) -> Path:
        return self.out or self.folder

    def _archive(self, folder: "StudyFolder") -> None:
        from surefoot.files import write_atomically
        from surefoot.studies.archive import write_archive

        for run in folder.runs:
            if run.damaged:
                say(f"{run.place} is damaged and left out.")
        write_atomically(self._out / "study.json", (folder.path / "study.json").read_bytes())
        write_archive([run for run in folder.runs if not run.damaged], self._out)

    def _draw(self, runs: "Sequence[Trajectory]") -> None:
        from surefoot.report.figures import write_figures

        if self.figures:
            written = write_figures(self._out / "figures", runs, formats=self.figures)
            say(f"{len(written)} figures: {self._out / 'figures'}")


def write_run_page(stored: "RunFolder", out: Path) -> Path:
    """Write a run's report.html to `out`; returns its path."""
    from surefoot.report._write_report import write_run_report

    page, note = write_run_report(stored, out)
    if note:
        say(note)
    return page


def show(
    study: "StudyOutcome", folder: "StudyFolder", out: Path, *, page: bool, json: bool, archive: bool = False
) -> None:
    """Write a study's files to `out`, print its tables (or JSON) and the page's path."""
    from surefoot.report.study import all_tables, not_done_table, write_page, write_tables

    with request():
        write_tables(out, study, archive=archive)
        path = write_page(out, study, folder.trajectories) if page else None
    for note in study.notes:
        say(note)
    if json:
        print_json(study.to_dict())
    else:
        for table in (*study.outcome.tables[:1], study.outcome.claims_table, *not_done_table(study)):
            print_table(table)
        print(f"All {len(all_tables(study))} tables: {(out / 'tables.md').resolve()}")
    if path is not None:
        (say if json else print)(f"Report: {path.resolve()}")
