"""A study's outcome as files: Markdown, CSV, JSON and the page."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from surefoot.files import write_atomically
from surefoot.report.page import Picture, Section, render
from surefoot.report.plots import Run, bounds, climbs, comparison, correlation_by_end, phase, stability, trajectories
from surefoot.report.sam_versus_sgd import beside
from surefoot.report.shift import severities
from surefoot.table import Table

_OWN: dict[str, tuple[Callable[[Sequence[Run]], str], str]] = {  # figures of studies that have one, with captions
    "certificates": (bounds, "Bound (dashed) and measured value (solid) on the training set; dotted: interpolation."),
    "comparison": (comparison, "One colour per optimizer, one line per learning rate and seed."),
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


def write_tables(folder: Path, outcome: Mapping[str, Any]) -> None:
    """Write outcome.json, tables.md and one CSV per table."""
    tables = all_tables(outcome)
    write_atomically(folder / "outcome.json", (json.dumps(plain(outcome), indent=1) + "\n").encode())
    write_atomically(folder / "tables.md", _markdown(outcome, tables).encode())
    (folder / "not-done.csv").unlink(missing_ok=True)  # of an earlier call, when some runs were not done
    for table in tables:
        write_atomically(folder / f"{table.name}.csv", table.csv().encode())


def write_page(folder: Path, outcome: Mapping[str, Any], runs: Sequence[Run]) -> Path:
    """Write report.html, and a study's own figure beside it; returns the page's path."""
    if runs and outcome["figures"] in _OWN:
        draw, _ = _OWN[outcome["figures"]]
        write_atomically(folder / f"{outcome['figures']}.svg", draw(runs).encode())
    page = folder / "report.html"
    write_atomically(page, _page(outcome, runs).encode())
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
    lines.append(f"Made by: surefoot study {outcome['study']} --scale {outcome['scale']}")
    return tuple(lines)


def _subtitle(outcome: Mapping[str, Any]) -> str:
    counts = ", ".join(f"{count} {status}" for status, count in sorted(outcome["num_runs"].items()))
    seeds = ", ".join(map(str, outcome["seeds"]))
    partial = "; partial: some runs are still to do" if outcome.get("partial") else ""
    return f"Study {outcome['study']} at scale {outcome['scale']}; runs: {counts}; seeds {seeds or 'none'}{partial}"


def _markdown(outcome: Mapping[str, Any], tables: Sequence[Table]) -> str:
    parts = [f"# {outcome['title']}", _subtitle(outcome), outcome["about"].strip()]
    parts += [table.markdown().rstrip() for table in tables]
    parts.append("\n".join(f"- {line}" for line in origin_lines(outcome)))
    return "\n\n".join(parts) + "\n"


def _page(outcome: Mapping[str, Any], runs: Sequence[Run]) -> str:
    optimizers = list(dict.fromkeys(spec.optimizer.name for spec, _ in runs))
    first, *others = outcome["tables"]
    sections = [Section("The answer", tables=(first, outcome["claims"]))]
    if runs and outcome["figures"] in _OWN:
        draw, caption = _OWN[outcome["figures"]]
        sections.append(Section("Along training", figures=(Picture(draw(runs), caption),)))
    elif runs:
        pictures = (
            Picture(phase(runs, optimizers=optimizers), "ECE against sharpness along each run: dot first, cross last."),
            Picture(
                correlation_by_end(outcome["curves"], optimizers=optimizers),
                "How the correlation depends on where the run is taken to end.",
            ),
        )
        sections.append(Section("Together?", figures=pictures))
    sections += [
        Section(
            f"Trajectories of {optimizer}",
            figures=(
                Picture(
                    trajectories(runs, optimizer=optimizer),
                    "One shade per learning rate, one line per seed; dashed: 2/lr."
                    if optimizer in ("gd", "sgd")
                    else "One shade per learning rate, one line per seed.",
                ),
            ),
        )
        for optimizer in optimizers
    ]
    sections.append(Section("More tables", tables=(*others, *not_done(outcome))))
    return render(
        title=outcome["title"],
        subtitle=_subtitle(outcome),
        about=(outcome["about"].strip(),),
        sections=tuple(sections),
        origin=origin_lines(outcome),
    )
