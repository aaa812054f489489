"""A study's outcome as files: Markdown, CSV, JSON and the page."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from surefoot.files import write_atomically
from surefoot.report.course import MOST_RUNS, Course, overview
from surefoot.report.page import Page, Picture, Section
from surefoot.report.plots import evenly
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.claim import Verdict
from surefoot.studies.study import describe_axes
from surefoot.studies.study_outcome import StudyOutcome
from surefoot.table import Estimate, Table


def write_tables(folder: Path, study: StudyOutcome, *, archive: bool = False) -> None:
    """Write outcome.json and tables.md; unless it is an archive, tables.tex (booktabs) and one CSV per table too."""
    tables = all_tables(study)
    write_atomically(folder / "outcome.json", (json.dumps(study.to_dict(), indent=1, allow_nan=False) + "\n").encode())
    write_atomically(folder / "tables.md", _markdown(study, tables).encode())
    if archive:
        return
    write_atomically(folder / "tables.tex", "\n".join(table.latex() for table in tables).encode())
    (folder / "not-done.csv").unlink(missing_ok=True)  # of an earlier call, when some runs were not done
    for table in tables:
        write_atomically(folder / f"{table.name}.csv", table.csv().encode())


def write_page(folder: Path, study: StudyOutcome, runs: Sequence[Trajectory]) -> Path:
    """Write report.html, and the figures that the analysis brings beside it; returns the page's path."""
    pictures = _pictures(study, runs)
    for name, picture in pictures.items():
        write_atomically(folder / f"{name}.svg", picture.svg.encode())
    page = folder / "report.html"
    write_atomically(page, study_page(study, runs, pictures=pictures).html().encode())
    return page


def all_tables(study: StudyOutcome) -> list[Table]:
    """The study's tables, its claims, and the runs that are not in the averages."""
    return [*study.tables, study.outcome.claims_table, *not_done_table(study)]


def not_done_table(study: StudyOutcome) -> list[Table]:
    """A table of the runs that are not in the averages, and why; none if there are none."""
    rows = tuple((run.label, run.status, run.reason) for run in study.not_done)
    return [Table("not-done", "Runs that are not in the averages", ("run", "status", "why"), rows)] if rows else []


def origin_lines(study: StudyOutcome) -> tuple[str, ...]:
    """Who made the runs, one sentence per maker."""
    lines = []
    for maker in study.origins:
        versions = ", ".join(f"{name} {number}" for name, number in (maker["versions"] or {}).items())
        machine = maker["hardware"] or {}
        lines.append(
            f"{maker['num_runs']} runs by code {maker['code']} (commit {maker['commit'] or 'unknown'}): {versions}; "
            f"{machine.get('processor', '?')}, {machine.get('cores', '?')} cores."
        )
    if len(lines) > 1:
        lines.append("The runs were made by more than one version of the code: compare them with care.")
    lines += study.notes
    names = [shlex.quote(text) for text in (study.file or study.study, study.scale)]
    lines.append(f"Made by: surefoot study {names[0]} --scale {names[1]}")
    return tuple(lines)


def _subtitle(study: StudyOutcome) -> str:
    counts = ", ".join(f"{count} {status}" for status, count in sorted(study.num_runs.items()))
    seeds = ", ".join(map(str, study.seeds))
    partial = "; partial: some runs are still to do" if study.partial else ""
    return f"Study {study.study} at scale {study.scale}; runs: {counts}; seeds {seeds or 'none'}{partial}"


def _about(study: StudyOutcome) -> tuple[str, ...]:
    """What the scale is, and what its runs differ in, where the study says so."""
    return tuple(filter(None, (study.about.strip(), describe_axes(study.axes))))


def _markdown(study: StudyOutcome, tables: Sequence[Table]) -> str:
    parts = [f"# {study.title}", _subtitle(study), *_about(study)]
    parts += [table.markdown().rstrip() for table in tables]
    parts.append("\n".join(f"- {line}" for line in origin_lines(study)))
    return "\n\n".join(parts) + "\n"


def study_page(
    study: StudyOutcome,
    runs: Sequence[Trajectory],
    *,
    pictures: dict[str, Picture] | None = None,
    live: bool = False,
) -> Page:
    """The page of a study: what was asked, the answer, the diagnosis, the course of the runs, tables, origin.

    Args:
        study: What its folder says.
        runs: What the page draws.
        pictures: The figures that the analysis brings, where they are drawn already.
        live: Whether the page looks for news of itself.
    """
    course = Course.of(runs)
    first, *others = study.tables or [None]
    empty = () if course.facts else ("No run of this study is done yet: there is nothing to draw.",)
    sections = [
        Section(
            "The answer", tables=tuple(filter(None, (study.outcome.claims_table, first))), findings=_counted(study)
        ),
        Section("Diagnosis", findings=overview(course.facts), text=empty),
    ]
    if course.facts:
        sections += course_sections(course)
    drawn = _pictures(study, runs) if pictures is None else pictures
    headings = {figure.name: figure.heading for figure in study.figures}
    sections += [Section(headings[name], figures=(picture,)) for name, picture in drawn.items()]
    sections.append(Section("More tables", tables=(*others, *cost_table(study), *not_done_table(study))))
    return Page(
        title=study.title,
        subtitle=_subtitle(study),
        about=_about(study),
        sections=tuple(sections),
        origin=origin_lines(study),
        data=course.data,
        live=live,
    )


def course_sections(course: Course) -> list[Section]:
    """What runs went through, linked: pick a run and a step anywhere."""
    how = "Hover over a line, or choose a run and a step here: every chart follows."
    missing = (
        "These runs were made without the observer `reliability`, so there is no reliability diagram along training: "
        "`observers = { reliability = {} }` in the spec adds it."
    )
    sections = [
        Section(
            "Along training",
            text=(how, *course.notes),
            controls=True,
            charts=course.trajectories(),
        ),
        Section(
            "How sure, how right, at the picked step",
            charts=course.reliabilities(),
            text=() if course.num_bins else (missing,),
        ),
        Section("Diagnosis of the picked run", run_diagnosis=True),
        Section("ECE against sharpness", charts=course.phases()),
        Section("Margins", charts=course.fans()),
        Section("Certificates", charts=course.certificates()),
    ]
    return [each for each in sections if each.charts or each.text or each.run_diagnosis]


def cost_table(study: StudyOutcome) -> list[Table]:
    """What the runs cost, and how much of it went into observing them; none where no run says."""
    rows = []
    for variant in dict.fromkeys(cost.variant for cost in study.costs):
        group = [cost for cost in study.costs if cost.variant == variant]
        seconds = Estimate.of(cost.seconds for cost in group)
        rows.append((variant, seconds, Estimate.of(cost.observing / cost.seconds for cost in group)))
    columns = ("optimizer", "seconds of a run", "share of these spent observing")
    note = "Mean ± sample standard deviation over n runs."
    return [Table("costs", "Cost of observing", columns, tuple(rows), (note,))] if rows else []


def _counted(study: StudyOutcome) -> tuple[tuple[str, str], ...]:
    """How many claims have which verdict."""
    verdicts = [claim.verdict for claim in study.outcome.claims]
    if not verdicts:
        return ()
    reproduced, unseen = verdicts.count(Verdict.REPRODUCED), verdicts.count(Verdict.NOT_SEEN)
    rest = len(verdicts) - reproduced - unseen
    sentence = (
        f"Of {len(verdicts)} claims {reproduced} are reproduced, {unseen} are not seen at this scale, and {rest} are "
        "inconclusive."
    )
    mark = "holds" if reproduced == len(verdicts) else "fails" if unseen == len(verdicts) else "undecided"
    return ((mark, sentence),)


def _pictures(study: StudyOutcome, runs: Sequence[Trajectory]) -> dict[str, Picture]:
    """The figures that the analysis brings, by name; none before a run is done."""
    observed = evenly([run for run in runs if len(run)], MOST_RUNS)
    return {each.name: Picture(each.draw(observed), each.caption) for each in study.figures} if observed else {}
