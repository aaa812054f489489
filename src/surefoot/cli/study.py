"""`surefoot study`: all runs of a study, then its tables and page."""

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from surefoot.cli._plan import measuring, say_plan, show_plan
from surefoot.cli._terminal import Bars, bars, say
from surefoot.cli.request import request

if TYPE_CHECKING:
    from surefoot.runs.stored import StoredRun
    from surefoot.studies.engines.engine import Engine, Event, Trial
    from surefoot.studies.plan import Plan
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
        from surefoot.studies.reuse import take
        from surefoot.studies.run import run_study

        with ExitStack() as resources:
            with request():
                work = self._prepare(resources)
            if work.made:
                copied = "would be" if self.dry_run else "are"
                say(f"{len(work.made)} runs of the study have ended elsewhere and {copied} copied from there.")
            if work.engine is None:
                show_plan(work.study, work.planned, json=self.json)
                return 0
            study, trials = work.study, work.trials
            say(f"{study.title} Scale {study.scale}: {len(study.specs)} runs, {len(trials)} to do.")
            if self.budget is not None:
                say_plan(work.planned)
            try:
                take(work.wanted, work.made)
                with bars(len(trials)) as shown:
                    show_event = partial(_show_event, shown)
                    ended = run_study(study, work.root, trials, engine=work.engine, on_event=show_event)
            except OSError as error:
                say(f"surefoot: the study stopped: {error}")
                return 1
        self._show_outcome(work.root)
        return 0 if all(event.status in ("done", "diverged") for event in ended.values()) else 1

    def _prepare(self, resources: ExitStack) -> "_Work":
        """Check the request, choose what to do, and take the study's folder; changes nothing on a dry run."""
        from surefoot.files import locked
        from surefoot.report.page import check_extra
        from surefoot.studies.engines import make_engine
        from surefoot.studies.plan import duration, plan
        from surefoot.studies.reuse import made_elsewhere
        from surefoot.studies.run import missing
        from surefoot.studies.study import read_study

        if not self.no_page and not self.dry_run:
            check_extra()
        study = read_study(self.name, scale=self.scale)
        root = self.out or Path("runs") / study.name / study.scale
        num_workers = self._num_workers(study)
        seconds = None if self.budget is None else duration(self.budget)
        wanted = missing(study, root, rerun=self.rerun)
        made = made_elsewhere(wanted, self.reuse)
        trials = [trial for trial in wanted if trial.id not in made]
        if trials:
            from surefoot.runs.preflight import preflight  # loads torch

            preflight([trial.spec for trial in trials])
        work = _Work(study, root, wanted, made, trials)
        if self.dry_run or seconds is not None:
            with measuring() as on_progress:
                planned = plan(study.specs, trials, num_workers=num_workers, seconds=seconds, on_progress=on_progress)
            work = replace(work, plan=planned, trials=list(planned.trials))
        if self.dry_run:
            return work
        engine = make_engine(
            self.engine, num_workers=num_workers, address=self.address, options=self.engine_options, logs=root / "jobs"
        )
        resources.enter_context(locked(root))
        return replace(work, engine=engine)

    def _show_outcome(self, root: Path) -> None:
        from surefoot.cli.report import show
        from surefoot.runs.provenance import same_provenance
        from surefoot.studies.folder import StudyFolder
        from surefoot.studies.study_outcome import study_outcome

        folder = StudyFolder(root)
        stale = [run for run in folder.runs if run.status != "damaged" and not same_provenance(run.record)]
        if stale:
            say(f"{len(stale)} runs were made by other code or versions and are used as they are: see --rerun stale.")
        with request():
            outcome = study_outcome(folder)
        show(outcome, folder, root, page=not self.no_page, json=self.json)

    def _num_workers(self, study: "Study") -> int:
        from surefoot.studies.engines import usable_cores

        if self.workers is None:
            widest = max(spec.num_threads * spec.processes for spec in study.specs)
            return max(usable_cores() // widest, 1)
        if self.workers < 1:
            raise ValueError(f"`workers` must be at least 1, got {self.workers}.")
        return self.workers


@dataclass(frozen=True)
class _Work:
    """What one call of the command has to do."""

    study: "Study"
    root: Path
    wanted: "list[Trial]"
    made: "dict[str, StoredRun]"  # of those, what another study's folder has
    trials: "list[Trial]"  # the others, as far as the budget goes
    plan: "Plan | None" = None  # where one was made: for a dry run or a budget
    engine: "Engine | None" = None  # none on a dry run

    @property
    def planned(self) -> "Plan":
        """The plan, where one was made."""
        if self.plan is None:
            raise RuntimeError("No plan was made: neither a dry run nor a budget was asked for.")
        return self.plan


def _show_event(shown: Bars, event: "Event") -> None:
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
