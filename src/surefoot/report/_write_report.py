"""The HTML page of a run's or a study's folder, in one call."""

from pathlib import Path
from typing import TYPE_CHECKING

from surefoot.files import write_atomically
from surefoot.report.page import check_extra

if TYPE_CHECKING:
    from surefoot.runs.folder import RunFolder


def write_report(folder: Path | str, out: Path | str | None = None) -> Path:
    """Write the HTML page of a run's or a study's folder; returns its path.

    Args:
        folder: The folder of a run or of a study.
        out: The folder to write to; `folder` itself if not given.
    """
    from surefoot.report.study import write_page
    from surefoot.runs.folder import RunFolder
    from surefoot.studies.folder import StudyFolder
    from surefoot.studies.study_outcome import study_outcome

    check_extra()
    if not isinstance(folder, str | Path):
        kind = type(folder).__name__
        raise ValueError(f"`folder` must be the path of a run's or a study's folder, got a {kind}.")
    source = Path(folder)
    target = source if out is None else Path(out)
    if not source.is_dir():
        raise ValueError(f"`folder` must be the folder of a run or of a study, got {source}.")
    if (source / "run.json").exists():
        return write_run_report(RunFolder(source), target)[0]
    if not (source / "study.json").exists():
        raise ValueError(f"`folder` must have a run.json or a study.json, as runs and studies do, got {source}.")
    study = StudyFolder(source)
    outcome = study_outcome(study)
    target.mkdir(parents=True, exist_ok=True)
    return write_page(target, outcome, study.trajectories)


def write_run_report(stored: "RunFolder", out: Path) -> tuple[Path, str]:
    """Write a run's report.html to `out`; returns its path, and a note where the run has no weights to evaluate."""
    from surefoot.diagnosis.diagnosis import diagnose
    from surefoot.diagnosis.facts import run_facts
    from surefoot.diagnosis.measuring import run_weights_facts
    from surefoot.report.run import run_page

    run, _ = stored.observed()
    facts, note = run_weights_facts(run_facts(run, status=stored.status, reason=stored.reason), stored)
    out.mkdir(parents=True, exist_ok=True)
    page = out / "report.html"
    write_atomically(page, run_page(stored.record, run, diagnose(facts)).html().encode())
    return page, note
