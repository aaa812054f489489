"""A figure that an analysis brings for its study's page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from surefoot.runs.trajectory import Trajectory


@dataclass(frozen=True)
class StudyFigure:
    """How to draw a figure of a study's runs. An analysis lists its own as `FIGURES`."""

    name: str  # of the file
    heading: str  # over it on the page
    caption: str
    draw: Callable[[Sequence[Trajectory]], str]  # returns the text of an <svg> element
