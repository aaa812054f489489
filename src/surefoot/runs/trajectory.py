"""A trajectory: everything one run measured, a column of numbers for each quantity."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from surefoot.runs.spec import RunSpec

Row = dict[str, float | None]  # one observation as a run's folder stores it; what is not finite is None
Column = NDArray[np.float64]  # [T]
Sampling = Literal["equal", "log"]  # of the observed steps: those on the equally spaced grid, or on the log-spaced one


@dataclass(frozen=True, eq=False)
class Trajectory:
    """What one run measured at its T observed steps: float64 columns, NaN where a quantity was not measured.

    Analyses, pages, diagnoses and comparisons read runs in this shape only.

    >>> spec = RunSpec.from_dict({"optimizer": {"name": "gd", "lr": 0.5}, "budget": 9})
    >>> run = Trajectory.of(spec, [{"step": 0, "test/ece": 0.1}, {"step": 5, "test/ece": None}, {"step": 9, "loss": 2}])
    >>> run["test/ece"].tolist(), run.last("loss"), run.last("never/measured"), run.optimizer, run.lr
    ([0.1, nan, nan], 2.0, nan, 'gd', 0.5)
    """

    spec: RunSpec
    columns: Mapping[str, Column]
    num_steps: int  # T
    _parts: dict[tuple[str, str], "Trajectory"] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, spec: RunSpec, rows: Sequence[Mapping[str, float | None]]) -> "Trajectory":
        """The trajectory of a run's stored rows."""
        keys = dict.fromkeys(key for row in rows for key in row)
        columns = {key: np.array([row.get(key) for row in rows], dtype=np.float64) for key in keys}
        return cls(spec, columns, len(rows))

    def __len__(self) -> int:
        return self.num_steps

    def __getitem__(self, key: str) -> Column:
        """A quantity at every observed step; all NaN where the run never measured it."""
        column = self.columns.get(key)
        return np.full(self.num_steps, math.nan) if column is None else column

    def __contains__(self, key: str) -> bool:
        """Whether the rows have this quantity, measured or not."""
        return key in self.columns

    def has(self, *keys: str) -> bool:
        """Whether each of these quantities was measured at some step."""
        return all(bool(np.isfinite(self[key]).any()) for key in keys)

    def measured(self, *keys: str) -> list[Column]:
        """These quantities at the steps where all of them were measured."""
        columns = [self[key] for key in keys]
        where = np.logical_and.reduce([np.isfinite(column) for column in columns])
        return [column[where] for column in columns]

    def first(self, key: str) -> float:
        """A quantity at the first observed step; NaN where it was not measured."""
        return float(self[key][0]) if self.num_steps else math.nan

    def last(self, key: str) -> float:
        """A quantity at the last observed step; NaN where it was not measured."""
        return float(self[key][-1]) if self.num_steps else math.nan

    def at(self, place: int) -> dict[str, float]:
        """All quantities of one observation, the `place`-th."""
        return {key: float(column[place]) for key, column in self.columns.items()}

    def peak(self, key: str) -> int | None:
        """The place of the first largest value of a quantity; None where it was never measured."""
        return int(np.nanargmax(self[key])) if self.has(key) else None

    def part(self, where: NDArray[np.bool_] | NDArray[np.intp] | slice) -> "Trajectory":
        """The observations that a mask, places or a slice choose."""
        columns = {key: column[where] for key, column in self.columns.items()}
        return Trajectory(self.spec, columns, len(np.arange(self.num_steps)[where]))

    @cached_property
    def steps(self) -> NDArray[np.int64]:
        """The observed steps."""
        return self["step"].astype(np.int64)

    @property
    def optimizer(self) -> str:
        """The optimizer's name."""
        return self.spec.optimizer.name

    @property
    def lr(self) -> float:
        """The learning rate; NaN where the spec names none."""
        return self.spec.lr

    @cached_property
    def interpolated(self) -> int | None:
        """The first observed step at which every training sample is classified correctly; None if there is none."""
        reached = self.steps[self["train/margin_min"] > 0]
        return int(reached[0]) if len(reached) else None

    def window(self, sampling: Sampling, window: str = "whole") -> "Trajectory":
        """The observations on the equally or the log-spaced grid of steps inside a window of the run; made once.

        Args:
            sampling: Which grid of the run's schedule.
            window: `whole`; `before` or `after` interpolation, that step included; or `first 25 %` of the last step.
        """
        if (sampling, window) not in self._parts:
            on_grid = self.spec.schedule.equally_spaced if sampling == "equal" else self.spec.schedule.log_spaced
            low, high = self._limits(window)
            chosen = np.array([on_grid(step) and low <= step <= high for step in self.steps.tolist()], dtype=bool)
            self._parts[sampling, window] = self.part(chosen)
        return self._parts[sampling, window]

    def _limits(self, window: str) -> tuple[float, float]:
        if window in ("before", "after"):
            reached = math.inf if self.interpolated is None else float(self.interpolated)
            return (0.0, reached) if window == "before" else (reached, math.inf)
        share = 1.0 if window == "whole" else float(window.split()[1]) / 100
        return 0.0, share * (float(self.steps[-1]) if self.num_steps else 0.0)
