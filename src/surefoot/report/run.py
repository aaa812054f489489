"""The page of one run."""

from collections.abc import Mapping, Sequence
from typing import Any

from surefoot.diagnosis.diagnosis import Diagnosis
from surefoot.report.course import Course
from surefoot.report.page import Page, Section, findings
from surefoot.report.study import course_sections
from surefoot.runs.trajectory import Row
from surefoot.runs.spec import RunSpec
from surefoot.table import Table


def run_page(
    record: Mapping[str, Any], spec: RunSpec, rows: Sequence[Row], diagnosis: Diagnosis, *, live: bool = False
) -> Page:
    """What one run is, what is wrong with it, what it went through, and how to make it again."""
    course = Course.of([(spec, list(rows))])
    sections = [Section("Diagnosis", findings=findings(diagnosis))]
    if course.facts:
        drawn = course_sections(course)
        sections += [section for section in drawn if not section.run_diagnosis]  # it stands at the top already
        sections.append(Section("Last observation", tables=(last_row(rows),)))
    else:
        sections.append(Section("Along training", text=("Nothing has been observed yet.",)))
    why = f": {record['reason']}" if record.get("reason") else ""
    return Page(
        title=spec.label,
        subtitle=f"Run {record['id']}, {record['status']}{why}; {len(rows)} observations",
        sections=tuple(sections),
        origin=_origin(record, spec),
        data=course.data,
        live=live,
    )


def last_row(rows: Sequence[Row]) -> Table:
    """The last row, training and test beside each other, without the bins of the diagram."""
    last = rows[-1]
    names = dict.fromkeys(key.partition("/")[2] for key in last if "/" in key and "/bin_" not in key)
    cells = tuple((name, last.get(f"train/{name}"), last.get(f"test/{name}")) for name in names)
    return Table("run", f"Step {last.get('step')}", ("quantity", "train", "test"), cells)


def _origin(record: Mapping[str, Any], spec: RunSpec) -> tuple[str, ...]:
    versions = ", ".join(f"{name} {number}" for name, number in (record.get("versions") or {}).items())
    seconds, looking = record.get("seconds"), record.get("seconds_observing")
    cost = f"It took {seconds:.1f} s, {looking / seconds:.0%} of that observing." if seconds and looking else ""
    if record.get("watched") is not None:
        return tuple(filter(None, (f"Watched in a training loop that surefoot did not run: {versions}.", cost)))
    made = f"Made by code {record.get('code', 'unknown')} (commit {record.get('commit') or 'unknown'}): {versions}."
    again = f"Save the spec below as spec.toml, then: surefoot train spec.toml. {' '.join(spec.to_toml().split())}"
    return tuple(filter(None, (made, cost, again)))
