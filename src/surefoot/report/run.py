"""The page of one run."""

import math
from collections.abc import Mapping
from typing import Any

from surefoot.diagnosis.diagnosis import Diagnosis
from surefoot.report.course import Course
from surefoot.report.page import Page, Section, findings
from surefoot.report.study import course_sections
from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Trajectory
from surefoot.table import Table


def run_page(record: Mapping[str, Any], run: Trajectory, diagnosis: Diagnosis, *, live: bool = False) -> Page:
    """What one run is, what is wrong with it, what it went through, and how to make it again."""
    course = Course.of([run])
    sections = [Section("Diagnosis", findings=findings(diagnosis))]
    if course.facts:
        drawn = course_sections(course)
        sections += [section for section in drawn if not section.run_diagnosis]  # it stands at the top already
        sections.append(Section("Last observation", tables=(last_observation(run),)))
    else:
        sections.append(Section("Along training", text=("Nothing has been observed yet.",)))
    why = f": {record['reason']}" if record.get("reason") else ""
    return Page(
        title=run.spec.label,
        subtitle=f"Run {record['id']}, {record['status']}{why}; {len(run)} observations",
        sections=tuple(sections),
        origin=_origin(record, run.spec),
        data=course.data,
        live=live,
    )


def last_observation(run: Trajectory, *, title: str = "") -> Table:
    """The last observation, training and test beside each other, without the bins of the diagram."""
    measured = [key for key in run.columns if "/" in key and "/bin_" not in key]
    names = dict.fromkeys(key.partition("/")[2] for key in measured)
    cells = tuple((name, *(_cell(run, f"{split}/{name}") for split in ("train", "test"))) for name in names)
    step = f"step {run.steps[-1]}" if len(run) else "no step observed"
    title = f"{title}, {step}" if title else step.capitalize()
    return Table("run", title, ("quantity", "train", "test"), cells)


def _cell(run: Trajectory, key: str) -> float | None:
    value = run.last(key)
    return None if math.isnan(value) else value


def _origin(record: Mapping[str, Any], spec: RunSpec) -> tuple[str, ...]:
    versions = ", ".join(f"{name} {number}" for name, number in (record.get("versions") or {}).items())
    seconds, looking = record.get("seconds"), record.get("seconds_observing")
    cost = f"It took {seconds:.1f} s, {looking / seconds:.0%} of that observing." if seconds and looking else ""
    if record.get("watched") is not None:
        return tuple(filter(None, (f"Watched in a training loop that surefoot did not run: {versions}.", cost)))
    made = f"Made by code {record.get('code', 'unknown')} (commit {record.get('commit') or 'unknown'}): {versions}."
    again = f"Save the spec below as spec.toml, then: surefoot train spec.toml. {' '.join(spec.to_toml().split())}"
    return tuple(filter(None, (made, cost, again)))
