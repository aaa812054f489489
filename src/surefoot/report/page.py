"""One HTML page that needs nothing but itself: scripts, data and figures are inside, and nothing is fetched."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

from surefoot.diagnosis.diagnosis import Diagnosis
from surefoot.report.charts import Spec
from surefoot.table import Table, json_ready

_PACKAGES = {"matplotlib": "matplotlib", "jinja2": "jinja2", "vl_convert": "vl-convert-python"}
_MARKS = {
    "fine": "Fine.",
    "look": "Look.",
    "undecided": "Undecided.",
    "try": "Try.",
    "nothing": "Fine.",
    "holds": "Holds.",
    "fails": "Does not hold.",
}


@dataclass(frozen=True)
class Picture:
    """A figure and the sentence that says what to see in it."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Chart:
    """An interactive figure: its specification, what page.js fills it with, and the sentence that says what to see."""

    name: str
    spec: Spec
    source: Mapping[str, Any]  # `kind`, and the keys of the rows that it shows
    caption: str

    @property
    def height(self) -> int:
        """In pixels, so that the page does not jump when the chart comes."""
        return int(self.spec["height"]) + 50


@dataclass(frozen=True)
class Section:
    """A heading with sentences, tables and figures under it."""

    heading: str
    tables: tuple[Table, ...] = ()
    figures: tuple[Picture, ...] = ()
    charts: tuple[Chart, ...] = ()
    text: tuple[str, ...] = ()
    findings: tuple[tuple[str, str], ...] = ()  # verdict, sentence
    controls: bool = False  # the choice of optimizers, run and step
    run_diagnosis: bool = False  # the diagnosis of the run that is picked


@dataclass(frozen=True)
class Page:
    """All of a page but its looks."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]
    about: tuple[str, ...] = ()
    origin: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)  # for page.js: see `surefoot.report.course`
    live: bool = False

    def html(self) -> str:
        """The page; every name and text is escaped."""
        try:
            from jinja2 import Environment
        except ImportError:
            raise ImportError("The page needs jinja2: pip install 'surefoot[report]'.") from None

        charts = [chart for section in self.sections for chart in section.charts]
        scripts = [chart_scripts(), _own("page.js")] if charts else []
        if self.live:
            scripts.append(_own("live.js"))
        environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
        return environment.from_string(_own("page.html")).render(
            title=self.title,
            subtitle=self.subtitle,
            about=self.about,
            sections=self.sections,
            origin=self.origin,
            contents=len(self.sections) > 3,
            live=self.live,
            marks=_MARKS,
            style=_own("page.css"),
            optimizers=list(self.data.get("colours", {}).items()),
            runs=[run["label"] for run in self.data.get("runs", ())],
            charts=inert_json({chart.name: {**chart.source, "spec": chart.spec} for chart in charts}),
            data=inert_json(self.data),
            scripts=scripts,
        )


def check_extra() -> None:
    """Raise ImportError, naming the extra, unless figures and page can be made."""
    for module, package in _PACKAGES.items():
        if find_spec(module) is None:
            raise ImportError(f"The page needs {package}: pip install 'surefoot[report]'.")


def findings(diagnosis: Diagnosis) -> tuple[tuple[str, str], ...]:
    """A diagnosis as verdicts and sentences, advice last with where it comes from."""
    return (
        *((each.verdict, each.sentence) for each in diagnosis.findings),
        *((each.kind, f"{each.sentence} [{each.source}]") for each in diagnosis.advice),
    )


def inert_json(content: Any) -> str:
    """JSON that is safe inside a script element: it cannot close it, and NaN is null."""
    try:
        text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    except ValueError:  # rare: looking at every number first would double the time
        text = json.dumps(json_ready(content), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def chart_scripts() -> str:
    """Vega, Vega-Lite and vega-embed as one script."""
    try:
        import vl_convert
    except ImportError:
        raise ImportError("The page needs vl-convert-python: pip install 'surefoot[report]'.") from None
    return str(vl_convert.javascript_bundle()).replace("</script", "<\\/script")  # type: ignore[call-arg, unused-ignore]


def _own(name: str) -> str:
    return files("surefoot.report").joinpath(name).read_text(encoding="utf-8")
