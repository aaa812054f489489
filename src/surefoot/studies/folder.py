"""A study's folder: study.json, and its runs in folders of their own or as an archive; each is read once."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from surefoot.runs.folder import RunFolder
from surefoot.runs.stored import StoredRun, read_record
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.analysis import Analysis, load_analysis
from surefoot.studies.archive import is_archive, read_archive
from surefoot.studies.claim import Rule
from surefoot.studies.study import read_rules, read_study

_KEYS = {"study": str, "scale": str, "title": str, "about": str, "runs": dict}


@dataclass(eq=False)
class StudyFolder:
    """A study on disk. What has been read stays: make another to see what was written since."""

    path: Path

    @cached_property
    def record(self) -> dict[str, Any]:
        """The content of study.json; ValueError where the folder is not a study's."""
        return read_record(self.path / "study.json", _KEYS, kind="study")

    @cached_property
    def runs(self) -> tuple[StoredRun, ...]:
        """The runs that exist, in the study's order."""
        wanted: dict[str, str] = self.record["runs"]
        if is_archive(self.path):
            kept = {run.name: run for run in read_archive(self.path)}
            return tuple(kept[name] for name in wanted if name in kept)
        folders = [RunFolder(self.path / "runs" / name) for name in wanted]
        return tuple(folder for folder in folders if folder.status != "absent")

    @cached_property
    def measured(self) -> dict[str, Trajectory]:
        """What every run that is done measured, by its id."""
        whole = ((run.name, run.measured_trajectory()) for run in self.runs)
        return {name: trajectory for name, trajectory in whole if trajectory is not None}

    @property
    def trajectories(self) -> list[Trajectory]:
        """What the runs that are done measured, in the study's order."""
        return list(self.measured.values())

    @cached_property
    def analysis(self) -> Analysis:
        """The analysis that the record names; earlier records give the name of the study that has it."""
        if "analysis" in self.record:
            file = self.record.get("file")
            return load_analysis(self.record["analysis"], folder=Path(file).parent if file else None)
        return load_analysis(read_study(str(self.record.get("outcome")).replace("_", "-")).analysis)

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """How its claims are judged; none in earlier records, which have them in another form."""
        rules = self.record.get("claims")
        return read_rules(rules) if isinstance(rules, dict) else ()
