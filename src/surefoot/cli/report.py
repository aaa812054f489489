"""`surefoot report`: tables and page again, from what a folder holds."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from surefoot.cli._terminal import print_json, print_run, print_table, say
from surefoot.cli.request import check_path, request

if TYPE_CHECKING:
    from surefoot.runs.folder import RunFolder


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
    """Copy study.json, and of every run run.json and the compressed rows, to `out` as well: it then stands alone."""
    no_page: bool = False
    """Leave out the HTML page, which needs the extra `report`."""
    figures: tuple[Literal["svg", "pdf", "png"], ...] = ()
    """Write every panel as a figure of a column's width to the folder `figures`, in these formats."""
    json: bool = False
    """Print the outcome as JSON."""

    def __call__(self) -> int:
        from surefoot.files import write_atomically
        from surefoot.report.page import check_extra
        from surefoot.runs.folder import RunFolder
        from surefoot.studies.outcome import study_outcome, study_runs

        with request():
            check_path("folder", self.folder)
            if self.figures or not self.no_page:
                check_extra()
        out = self.out or self.folder
        if (self.folder / "run.json").exists():
            with request():
                run = RunFolder(self.folder)
                print_run(run, json=self.json)
                self._draw([run], out)
                if not self.no_page:
                    path = write_run_page(run, out)
                    (say if self.json else print)(f"Report: {path.resolve()}")
            return 0
        with request():
            if self.archive and out.resolve() == self.folder.resolve():
                raise ValueError("`--archive` needs `--out`, a folder to copy to.")
            outcome = study_outcome(self.folder)
            out.mkdir(parents=True, exist_ok=True)
            if self.archive:
                write_atomically(out / "study.json", (self.folder / "study.json").read_bytes())
                for run in study_runs(self.folder):
                    if run.damaged:
                        say(f"{run.path} is damaged and left out.")
                    else:
                        run.archive(out / "runs" / run.path.name)
            self._draw(study_runs(self.folder), out)
        show(outcome, self.folder, out, page=not self.no_page, json=self.json)
        return 0

    def _draw(self, runs: "list[RunFolder]", out: Path) -> None:
        from surefoot.report.figures import write_figures

        if self.figures:
            held = [(run.spec, rows) for run in runs if (rows := run.measured()) is not None]
            written = write_figures(out / "figures", held, formats=self.figures)
            say(f"{len(written)} figures: {out / 'figures'}")


def write_run_page(run: "RunFolder", out: Path) -> Path:
    """Write a run's report.html to `out`; returns its path."""
    from surefoot.diagnosis.diagnosis import diagnose
    from surefoot.diagnosis.facts import run_facts
    from surefoot.diagnosis.measuring import weights_facts
    from surefoot.files import write_atomically
    from surefoot.report.run import run_page

    rows, _ = run.rows()
    facts = run_facts(run.spec, rows, status=run.status, reason=str(run.record.get("reason", "")))
    facts, note = weights_facts(facts, run)
    if note:
        say(note)
    out.mkdir(parents=True, exist_ok=True)
    page = out / "report.html"
    write_atomically(page, run_page(run.record, run.spec, rows, diagnose(facts)).html().encode())
    return page


def show(outcome: Mapping[str, Any], folder: Path, out: Path, *, page: bool, json: bool) -> None:
    """Write a study's files to `out`, print its tables (or JSON) and the page's path."""
    from surefoot.report.study import all_tables, not_done, plain, write_page, write_tables
    from surefoot.studies.outcome import study_trajectories

    with request():
        write_tables(out, outcome)
        runs = [(run.spec, run.rows) for run in study_trajectories(folder)]
        path = write_page(out, outcome, runs) if page else None
    for note in outcome["notes"]:
        say(note)
    if json:
        print_json(plain(outcome))
    else:
        for table in (outcome["tables"][0], outcome["claims"], *not_done(outcome)):
            print_table(table)
        print(f"All {len(all_tables(outcome))} tables: {(out / 'tables.md').resolve()}")
    if path is not None:
        (say if json else print)(f"Report: {path.resolve()}")
