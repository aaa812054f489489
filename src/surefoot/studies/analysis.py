"""An analysis: the module that says what a study's runs mean. A study's file names it."""

import importlib
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol, cast

from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.figure import StudyFigure
from surefoot.studies.outcome import Outcome


class Analysis(Protocol):
    """What a study's file names as its `analysis`: a module with these two functions.

    It may have figures of its own too, as `FIGURES`, a sequence of `StudyFigure`.
    """

    def check(self, spec: RunSpec) -> None:
        """Raise ValueError unless a run of this spec measures what the analysis needs."""
        ...

    def outcome(self, runs: Iterable[Trajectory]) -> Outcome:
        """Tables and claims of the runs that are done."""
        ...


def load_analysis(name: str, *, folder: Path | None = None) -> Analysis:
    """Import the analysis that a study's file names.

    Args:
        name: A module, as in `my_package.my_analysis`, or a Python file, as in `my_analysis.py`.
        folder: Where the study's file lies; a Python file is looked for beside it.

    Raises:
        ValueError: The module or file does not exist, cannot be imported, or is no analysis.
    """
    try:
        module = _from_file(folder or Path(), name) if name.endswith(".py") else importlib.import_module(name)
    except (ImportError, OSError) as error:
        rule = "`analysis` must be a module, or a .py file beside the study's"
        raise ValueError(f"{rule}, got {name!r}: {error}.") from None
    for part in ("check", "outcome"):
        if not callable(getattr(module, part, None)):
            raise ValueError(f"`analysis` must name a module with a function `{part}`, and {name} has none.")
    return cast(Analysis, module)


def figures_of(analysis: Analysis) -> tuple[StudyFigure, ...]:
    """The figures that an analysis brings; none where it has no `FIGURES`."""
    return tuple(getattr(analysis, "FIGURES", ()))


def need_observers(spec: RunSpec, *names: str) -> None:
    """Raise ValueError unless a run of this spec has these observers."""
    for name in names:
        if name not in spec.observers:
            raise ValueError(f"The study needs the observer {name}, and {spec.label} does without it.")


def _from_file(folder: Path, name: str) -> Any:
    path = (folder / name).resolve()
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist")
    spec = importlib.util.spec_from_file_location(f"surefoot_analysis_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses in it look themselves up there
    spec.loader.exec_module(module)
    return module
