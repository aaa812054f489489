"""Which moment of a run counts: the last, or the one that the validation split likes best."""

from collections.abc import Sequence

import numpy as np

from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Row, Trajectory

JUDGE = "validation/nll"


def selected(rows: Sequence[Row]) -> Row | None:
    """The observation with the lowest validation NLL, the earliest of equal ones; None where none has one.

    >>> selected([{"step": 0, "validation/nll": 2.0}, {"step": 5, "validation/nll": 1.0}, {"step": 9}])["step"]
    5
    """
    values = [(value, place) for place, row in enumerate(rows) if (value := row.get(JUDGE)) is not None]
    return rows[min(values)[1]] if values else None


def selected_place(run: Trajectory) -> int | None:
    """The place of that observation in a trajectory."""
    return int(np.nanargmin(run[JUDGE])) if run.has(JUDGE) else None


def check_selection(spec: RunSpec, *, has_validation: bool) -> None:
    """Raise ValueError if a spec selects by what its run does not measure."""
    if spec.select == "last":
        return
    if "calibration" not in spec.observers:
        raise ValueError(f"`select` is {spec.select!r}, which the observer calibration measures: do not leave it out.")
    if not has_validation:
        raise ValueError(f"`select` is {spec.select!r}, and the data holds nothing out: set `data.num_validation`.")
