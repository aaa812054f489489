"""A study's outcome as files: Markdown, CSV, JSON and the page."""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from surefoot.files import write_atomically
from surefoot.report.course import MOST_RUNS, Course, overview
from surefoot.report.page import Page, Picture, Section
from surefoot.report.plots import Run, bounds, climbs, comparison, correlation_by_end, evenly, stability
from surefoot.table import Estimate, Table
from surefoot_papers.sam_calibration.shift.figure import severities
from surefoot_papers.sam_calibration.versus_sgd.figure import beside
from surefoot_papers.too_sharp.coupling.figure import together

_OWN: dict[str, tuple[Callable[[Sequence[Run]], str], str]] = {  # figures of studies that have one, with captions
    "certificates": (bounds, "Bound (dashed) and measured value (solid) on the training set; dotted: interpolation."),
    "comparison": (comparison, "One colour per optimizer, one line per learning rate and seed."),
    "coupling": (
        together,
        "Training ECE and GN sharpness (dotted: 2/lr), then ECE against sharpness, training and test: a dot at the "
        "first step, a cross at the last; dashes tell learning rates.",
    ),
    "sam_theory": (
        climbs,
        "Curvature on the path (solid) against the limit -||g|| / rho (dashed); lambda and lambda_0.",
    ),
    "sam_versus_sgd": (
        beside,
        "For each network: reliability diagrams and confidences of one seed, dotted the mean confidence, dashed the "
        "accuracy; ECE and TCE along training and ECE after maps, means over seeds.",
    ),
    "shift": (
        severities,
        "Mean ECE over seeds against severity, 0 for clean images; dotted: MC-Dropout, dashed: ensembles.",
    ),
    "stability": (stability, "One panel per run; dashed: 2/lr."),
}

MOST_CURVES = 60  # in a static figure


def write_tables(folder: Path, outcome: Mapping[str, Any]) -> None:
    """Write outcome.json, tables.md, tables.tex (booktabs) and one CSV per table."""
    tables = all_tables(outcome)
    write_atomically(folder / "outcome.json", (json.dumps(plain(outcome), indent=1) + "\n").encode())
    write_atomically(folder / "tables.md", _markdown(outcome, tables).encode())
    write_atomically(folder / "tables.tex", "\n".join(table.latex() for table in tables).encode())
    (folder / "not-done.csv").unlink(missing_ok=True)  # of an earlier call, when some runs were not done
    for table in tables:
        write_atomically(folder / f"{table.name}.csv", table.csv().encode())


def write_page(folder: Path, outcome: Mapping[str, Any], runs: Sequence[Run]) -> Path:
    """Write report.html, and a study's own figure beside it; returns the page's path."""
    if runs and outcome["figures"] in _OWN:
        draw, _ = _OWN[outcome["figures"]]
        write_atomically(folder / f"{outcome['figures']}.svg", draw(evenly(runs, MOST_RUNS)).encode())
    page = folder / "report.html"
    write_atomically(page, study_page(outcome, runs).html().encode())
    return page


def all_tables(outcome: Mapping[str, Any]) -> list[Table]:
    """The outcome's tables, its claims, and the runs that are not in the averages."""
    return [*outcome["tables"], outcome["claims"], *not_done(outcome)]


def plain(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """The outcome with its tables as JSON can hold them."""
    return {
        **outcome,
        "tables": [asdict(table) for table in outcome["tables"]],
        "claims": asdict(outcome["claims"]),
    }


def not_done(outcome: Mapping[str, Any]) -> list[Table]:
    """A table of the runs that are not in the averages, and why; none if there are none."""
    rows = tuple((item["run"], item["status"], item["reason"]) for item in outcome["not_done"])
    return [Table("not-done", "Runs that are not in the averages", ("run", "status", "why"), rows)] if rows else []


def origin_lines(outcome: Mapping[str, Any]) -> tuple[str, ...]:
    """Who made the runs, one sentence per maker."""
    lines = []
    for maker in outcome["origins"]:
        versions = ", ".join(f"{name} {number}" for name, number in (maker["versions"] or {}).items())
        machine = maker["hardware"] or {}
        lines.append(
            f"{maker['num_runs']} runs by code {maker['code']} (commit {maker['commit'] or 'unknown'}): {versions}; "
            f"{machine.get('processor', '?')}, {machine.get('cores', '?')} cores."
        )
    if len(lines) > 1:
        lines.append("The runs were made by more than one version of the code: compare them with care.")
    lines += outcome["notes"]
    named = [shlex.quote(text) for text in (outcome.get("file") or outcome["study"], outcome["scale"])]
    lines.append(f"Made by: surefoot study {named[0]} --scale {named[1]}")
    return tuple(lines)


def _subtitle(outcome: Mapping[str, Any]) -> str:
    counts = ", ".join(f"{count} {status}" for status, count in sorted(outcome["num_runs"].items()))
    seeds = ", ".join(map(str, outcome["seeds"]))
    partial = "; partial: some runs are still to do" if outcome.get("partial") else ""
    return f"Study {outcome['study']} at scale {outcome['scale']}; runs: {counts}; seeds {seeds or 'none'}{partial}"


def _about(outcome: Mapping[str, Any]) -> tuple[str, ...]:
    """What the scale is, and what its runs differ in, where the study says so."""
    return tuple(filter(None, (outcome["about"].strip(), outcome.get("axes"))))


def _markdown(outcome: Mapping[str, Any], tables: Sequence[Table]) -> str:
    parts = [f"# {outcome['title']}", _subtitle(outcome), *_about(outcome)]
    parts += [table.markdown().rstrip() for table in tables]
    parts.append("\n".join(f"- {line}" for line in origin_lines(outcome)))
    return "\n\n".join(parts) + "\n"


def study_page(outcome: Mapping[str, Any], runs: Sequence[Run], *, live: bool = False) -> Page:
    """The page of a study: what was asked, the answer, the diagnosis, the course of the runs, tables, origin."""
    course = Course.of(runs)
    first, *others = outcome["tables"] or [None]
    empty = () if course.facts else ("No run of this study is done yet: there is nothing to draw.",)
    sections = [
        Section("The answer", tables=tuple(filter(None, (outcome["claims"], first))), findings=_verdicts(outcome)),
        Section("Diagnosis", findings=overview(course.facts), text=empty),
    ]
    if course.facts:
        sections += course_sections(course)
    sections += [Section(heading, figures=pictures) for heading, pictures in _pictures(outcome, runs) if pictures]
    cost = cost_table(outcome)
    sections.append(Section("More tables", tables=(*others, *cost, *not_done(outcome))))
    return Page(
        title=outcome["title"],
        subtitle=_subtitle(outcome),
        about=_about(outcome),
        sections=tuple(sections),
        origin=origin_lines(outcome),
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


def cost_table(outcome: Mapping[str, Any]) -> list[Table]:
    """What the runs cost, and how much of it went into looking at them; none where no run says."""
    costs = outcome.get("costs", ())
    rows = []
    for optimizer in dict.fromkeys(item["optimizer"] for item in costs):
        group = [item for item in costs if item["optimizer"] == optimizer]
        seconds = Estimate.of(item["seconds"] for item in group)
        rows.append((optimizer, seconds, Estimate.of(item["observing"] / item["seconds"] for item in group)))
    columns = ("optimizer", "seconds of a run", "share of these spent observing")
    note = "Mean ± sample standard deviation over n runs."
    return [Table("costs", "Cost of observing", columns, tuple(rows), (note,))] if rows else []


def _verdicts(outcome: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """How many claims hold, do not, or cannot be told."""
    claims = outcome["claims"]
    if "verdict" not in claims.columns or not claims.rows:
        return ()
    verdicts = [str(row[claims.columns.index("verdict")]) for row in claims.rows]
    holds, fails = verdicts.count("holds"), verdicts.count("does not hold")
    rest = len(verdicts) - holds - fails
    sentence = f"Of {len(verdicts)} claims {holds} hold here, {fails} do not, and {rest} cannot be told at this scale."
    return (("holds" if holds == len(verdicts) else "fails" if fails == len(verdicts) else "undecided", sentence),)


def _pictures(outcome: Mapping[str, Any], runs: Sequence[Run]) -> list[tuple[str, tuple[Picture, ...]]]:
    if runs and outcome["curves"]:  # whose own figure shows what the page's charts do
        optimizers = list(dict.fromkeys(spec.optimizer.name for spec, _ in runs))
        many = len(outcome["curves"])
        sampled = f"; {MOST_CURVES} of {many} runs, evenly taken" if many > MOST_CURVES else ""
        drawn = correlation_by_end(evenly(outcome["curves"], MOST_CURVES), optimizers=optimizers)
        caption = f"How the correlation depends on where the run is taken to end{sampled}."
        return [("Together?", (Picture(drawn, caption),))]
    if runs and outcome["figures"] in _OWN:
        draw, caption = _OWN[outcome["figures"]]
        return [("The study's own figure", (Picture(draw(evenly(runs, MOST_RUNS)), caption),))]
    return []
