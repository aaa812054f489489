"""What a study's folder says: which runs ended how, made by what, and what the analysis finds."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from surefoot.runs.stored import StoredRun, newer
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.analysis import figures_of
from surefoot.studies.claim import Rule, rules_table
from surefoot.studies.figure import StudyFigure
from surefoot.studies.folder import StudyFolder
from surefoot.studies.outcome import Outcome
from surefoot.studies.plan import format_duration
from surefoot.table import Table

_AGAIN = "the study's command does it again"
_UNREADABLE = f"its run.json cannot be read; {_AGAIN}"
_OTHER_ROWS = f"its rows are not those that it ended with; {_AGAIN}"
_CERTIFIED = [
    f"{split}/{key}"
    for split in ("train", "test")
    for key in ("ggn_certified", "ggn_converged")  # the latter in runs of earlier versions
]


@dataclass(frozen=True)
class RunState:
    """How one planned run of a study stands."""

    label: str
    status: str
    reason: str = ""


@dataclass(frozen=True)
class RunCost:
    """The seconds of one run that is done, and those of them that went into observing it."""

    variant: str
    seconds: float
    observing: float


@dataclass(frozen=True)
class StudyOutcome:
    """Everything a report shows of a study but the course of its runs."""

    study: str
    scale: str
    title: str
    about: str
    file: str | None  # of the study, where no package brings it
    axes: Mapping[str, Sequence[str]]
    runs: tuple[RunState, ...]  # all that are planned
    seeds: tuple[int, ...]
    origins: tuple[Mapping[str, Any], ...]  # who made the runs: code, commit, versions, hardware, num_runs
    notes: tuple[str, ...]
    costs: tuple[RunCost, ...]
    outcome: Outcome
    rules: tuple[Rule, ...] = ()
    figures: tuple[StudyFigure, ...] = ()

    @property
    def num_runs(self) -> dict[str, int]:
        """How many runs have each status."""
        return dict(Counter(run.status for run in self.runs))

    @property
    def not_done(self) -> list[RunState]:
        """The runs that are not in the averages."""
        return [run for run in self.runs if run.status != "done"]

    @property
    def partial(self) -> bool:
        """Whether some runs have not come to an end."""
        return any(run.status not in ("done", "diverged", "failed") for run in self.runs)

    @property
    def tables(self) -> tuple[Table, ...]:
        """The analysis's tables, then how its claims are judged."""
        return (*self.outcome.tables, *([rules_table(self.rules)] if self.rules else ()))

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            **{key: getattr(self, key) for key in ("study", "scale", "title", "about", "file", "axes", "partial")},
            "num_runs": self.num_runs,
            "not_done": [asdict(run) for run in self.not_done],
            **{key: getattr(self, key) for key in ("seeds", "origins", "notes")},
            "costs": [asdict(cost) for cost in self.costs],
            "tables": [table.to_dict() for table in self.tables],
            "claims": [claim.to_dict() for claim in self.outcome.claims],
        }


def study_outcome(folder: StudyFolder) -> StudyOutcome:
    """What a study's folder says.

    Only runs that are done enter the analysis; diverged, failed, damaged and missing ones are named.

    Raises:
        ValueError: The folder is not a study's, or its analysis cannot be loaded.
    """
    record = folder.record
    try:
        analysis = folder.analysis
    except ValueError as error:
        raise ValueError(f"{folder.path}: {error}{newer(record.get('versions'))}") from None
    stored = {run.name: run for run in folder.runs}
    states = [_state(label, stored.get(name), folder.measured.get(name)) for name, label in record["runs"].items()]
    done = [run for run in folder.runs if run.name in folder.measured]
    return StudyOutcome(
        **{key: record[key] for key in ("study", "scale", "title", "about")},
        file=record.get("file"),
        axes=record.get("axes", {}),
        runs=tuple(states),
        seeds=tuple(sorted({run.spec.seed for run in folder.trajectories})),
        origins=_origins(folder.runs),
        notes=(*_uncertified(folder.trajectories), *_times(done)),
        costs=_costs(done),
        outcome=analysis.outcome(folder.trajectories),
        rules=folder.rules,
        figures=figures_of(analysis),
    )


def _state(label: str, run: StoredRun | None, measured: Trajectory | None) -> RunState:
    if run is None:
        return RunState(label, "missing")
    if run.status == "damaged":
        return RunState(label, "damaged", _UNREADABLE)
    if run.status == "done" and measured is None:
        return RunState(label, "damaged", _OTHER_ROWS)
    return RunState(label, run.status, run.reason)


def _uncertified(runs: Sequence[Trajectory]) -> list[str]:
    counts = {run.spec.label: int(sum((run[key] == 0).sum() for key in _CERTIFIED)) for run in runs}
    return [f"{label}: {count} sharpness values are not certified." for label, count in counts.items() if count]


def _times(done: Sequence[StoredRun]) -> list[str]:
    """How long the runs took, and how much of it went into observing them; nothing where no run says."""
    costs = _costs(done)
    if not costs:
        return []
    seconds = [cost.seconds for cost in costs]
    shares = [cost.observing / cost.seconds for cost in costs]
    each, total = f"{min(seconds):.0f} to {max(seconds):.0f} s each", format_duration(sum(seconds))
    return [
        f"Runs took {each}, {total} in all (wall time, added up, n = {len(costs)} of {len(done)} runs).",
        f"Observing took {median(shares):.0%} of a run's time (median; {min(shares):.0%} to {max(shares):.0%}).",
    ]


def _costs(done: Sequence[StoredRun]) -> tuple[RunCost, ...]:
    timed = [run for run in done if run.record.get("seconds") and "seconds_observing" in run.record]
    return tuple(RunCost(run.spec.variant, run.record["seconds"], run.record["seconds_observing"]) for run in timed)


def _origins(runs: Sequence[StoredRun]) -> tuple[dict[str, Any], ...]:
    """The distinct makers of the runs: code, commit, versions, hardware, and how many runs each made."""
    keys = ("code", "commit", "versions", "hardware")
    records = [run.record for run in runs if run.status != "damaged"]
    made = Counter(json.dumps({key: record.get(key) for key in keys}) for record in records)
    return tuple({**json.loads(maker), "num_runs": count} for maker, count in made.items())
