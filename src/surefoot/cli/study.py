"""`surefoot study`: all runs of a study, then its tables and page."""

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from surefoot.cli._plan import measuring, say_plan, show_plan
from surefoot.cli._terminal import Bars, bars, say
from surefoot.cli.request import request

if TYPE_CHECKING:
    from surefoot.studies.engines.engine import Event
    from surefoot.studies.study import Study


@dataclass
class StudyCommand:
    """Do the runs of a study that are missing, and show what all of them say.

    Runs are resumed after a crash or Ctrl-C, and never done twice. The folder gets tables (Markdown, CSV), the whole
    outcome as JSON, and one HTML page.

    Example: surefoot study coupling --scale digits --budget 30m
    """

    name: tyro.conf.Positional[str]
    """A study's name (see `surefoot list studies`) or a TOML file."""
    scale: str | None = None
    """How large; the first scale in the study's file if not given, which for our studies is `digits`: minutes."""
    out: Path | None = None
    """Folder of the study; runs/NAME/SCALE if not given."""
    workers: int | None = None
    """Runs (or Slurm jobs) at a time; as many as the cores can take if not given. A Ray cluster knows by itself."""
    engine: Literal["local", "ray", "slurm"] = "local"
    """Where runs are done: on this machine, on a Ray cluster (extra `ray`), as Slurm jobs (extra `slurm`)."""
    address: str | None = None
    """Of the Ray cluster; if not given, Ray is started on this machine."""
    engine_options: Annotated[
        list[str], tyro.conf.arg(name="engine-option", metavar="KEY=VALUE"), tyro.conf.UseAppendAction
    ] = field(default_factory=list)
    """For slurm: an option of submitit, as in slurm_partition=gpu or timeout_min=60; cluster=local does the jobs
    on this machine. May be given several times."""
    rerun: Literal["none", "stale", "all"] = "none"
    """Do ended runs again: those made by other code or versions (stale), or all."""
    reuse: Annotated[list[Path], tyro.conf.arg(metavar="FOLDER"), tyro.conf.UseAppendAction] = field(
        default_factory=list
    )
    """Another study's folder: runs with the same spec that have ended there are copied, not done again. May be given
    several times."""
    no_page: bool = False
    """Leave out the HTML page, which needs the extra `report`."""
    dry_run: bool = False
    """Only say which runs there are and how long they would take, from a few steps of one of each kind."""
    budget: str | None = None
    """A time such as 30m: do as many of the runs as fit, breadth first, and say which were left out."""
    json: bool = False
    """Print the outcome as JSON: every cell with n and std."""

    def __call__(self) -> int:
        from surefoot.cli.report import show
        from surefoot.files import locked
        from surefoot.report.page import check_extra
        from surefoot.runs.provenance import same_provenance
        from surefoot.studies.engines import make_engine
        from surefoot.studies.folder import StudyFolder
        from surefoot.studies.plan import duration, plan
        from surefoot.studies.reuse import made_elsewhere, take
        from surefoot.studies.run import conduct, missing
        from surefoot.studies.study import read_study
        from surefoot.studies.study_outcome import study_outcome

        with ExitStack() as held:
            with request():
                if not self.no_page and not self.dry_run:
                    check_extra()
                study = read_study(self.name, scale=self.scale)
                root = self.out or Path("runs") / study.name / study.scale
                num_workers = self._num_workers(study)
                seconds = None if self.budget is None else duration(self.budget)
                trials = missing(study, root, rerun=self.rerun)
                made = made_elsewhere(trials, self.reuse)
                wanted, trials = trials, [trial for trial in trials if trial.id not in made]
                if trials:
                    from surefoot.runs.preflight import preflight  # loads torch

                    preflight([trial.spec for trial in trials])
                if self.dry_run or seconds is not None:
                    with measuring() as tell:
                        planned = plan(study.specs, trials, num_workers=num_workers, seconds=seconds, on_progress=tell)
                    trials = list(planned.trials)
                if not self.dry_run:
                    engine = make_engine(
                        self.engine,
                        num_workers=num_workers,
                        address=self.address,
                        options=self.engine_options,
                        logs=root / "jobs",
                    )
                    held.enter_context(locked(root))
            if made:
                copied = "would be" if self.dry_run else "are"
                say(f"{len(made)} runs of the study have ended elsewhere and {copied} copied from there.")
            if self.dry_run:
                show_plan(study, planned, json=self.json)
                return 0
            say(f"{study.title} Scale {study.scale}: {len(study.specs)} runs, {len(trials)} to do.")
            if seconds is not None:
                say_plan(planned)
            try:
                take(wanted, made)
                with bars(len(trials)) as shown:
                    ended = conduct(study, root, trials, engine=engine, on_event=lambda event: _tell(shown, event))
            except OSError as error:
                say(f"surefoot: the study stopped: {error}")
                return 1
        folder = StudyFolder(root)
        stale = [run for run in folder.runs if run.status != "damaged" and not same_provenance(run.record)]
        if stale:
            say(f"{len(stale)} runs were made by other code or versions and are used as they are: see --rerun stale.")
        with request():
            outcome = study_outcome(folder)
        show(outcome, folder, root, page=not self.no_page, json=self.json)
        return 0 if all(event.status in ("done", "diverged") for event in ended.values()) else 1

    def _num_workers(self, study: "Study") -> int:
        from surefoot.studies.engines import usable_cores

        if self.workers is None:
            widest = max(spec.num_threads * spec.processes for spec in study.specs)
            return max(usable_cores() // widest, 1)
        if self.workers < 1:
            raise ValueError(f"`workers` must be at least 1, got {self.workers}.")
        return self.workers


def _tell(shown: Bars, event: "Event") -> None:
    spec, why = event.spec, f": {event.reason}" if event.reason else ""
    for note in event.notes:
        shown.say(note)
    if event.kind == "started":
        shown.start(spec.id, spec.label, spec.budget)
    elif event.kind == "progress":
        shown.update(spec.id, event.done)
    elif event.kind == "lost":
        shown.say(f"{spec.label}{why}; it will be resumed")
    else:
        shown.end(spec.id, f"{spec.label} {event.status}{why}")
