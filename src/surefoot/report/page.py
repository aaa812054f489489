"""One HTML page that needs nothing but itself."""

from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec

from surefoot.table import Table


@dataclass(frozen=True)
class Picture:
    """A figure and the sentence that says what to see in it."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Section:
    """A heading with tables and figures under it."""

    heading: str
    tables: tuple[Table, ...] = ()
    figures: tuple[Picture, ...] = ()


def check_extra() -> None:
    """Raise ImportError, naming the extra, unless figures and page can be made."""
    for package in ("matplotlib", "jinja2"):
        if find_spec(package) is None:
            raise ImportError(f"The page needs {package}: pip install 'surefoot[report]', or leave it out (--no-page).")


def render(
    *, title: str, subtitle: str, about: tuple[str, ...], sections: tuple[Section, ...], origin: tuple[str, ...]
) -> str:
    """The page as HTML; everything but our own SVG is escaped."""
    try:
        from jinja2 import Environment
    except ImportError:
        raise ImportError("The page needs jinja2: pip install 'surefoot[report]'.") from None

    template = files("surefoot.report").joinpath("page.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(
        title=title, subtitle=subtitle, about=about, sections=sections, origin=origin
    )
