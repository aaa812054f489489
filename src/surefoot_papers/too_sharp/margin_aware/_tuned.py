"""Methods with their options chosen on the validation split, and what they end with."""

from collections.abc import Sequence
from dataclasses import dataclass

from surefoot.runs.selection import JUDGE, selected
from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Row
from surefoot.studies.correlation import Trajectory

LONGER = 3  # a run for how long a method keeps what it has is so many times as long as others of its optimizer
OURS, PLAIN = "margin_aware", "cross_entropy"
_DECAYS = ("weight_decay", "adamw_weight_decay")


def method_of(spec: RunSpec) -> str:
    """The loss, or weight decay where that is all there is beside cross-entropy; ours with options is an ablation."""
    if spec.loss.name == OURS and spec.loss.options:
        return "ablation"
    decays = any(spec.optimizer.options.get(key) for key in _DECAYS)
    return "weight_decay" if decays and spec.loss.name == PLAIN else spec.loss.name


def setting_of(spec: RunSpec) -> str:
    """What was chosen for a method, of its loss and of weight decay."""
    decays = {key: value for key, value in spec.optimizer.options.items() if key in _DECAYS}
    return " ".join(f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in
                    {**spec.loss.options, **decays}.items())  # fmt: skip


@dataclass(frozen=True)
class Ends:
    """The rows of one optimizer's runs with one method that count, by seed."""

    optimizer: str
    method: str
    setting: str
    rows: dict[int, Row]

    def values(self, key: str) -> list[float]:
        """A quantity of every seed that has it."""
        return [value for row in self.rows.values() if (value := row.get(key)) is not None]


def usual(run: Trajectory, runs: Sequence[Trajectory]) -> list[Row]:
    """The rows within the usual budget: of a run that is longer than others of its optimizer, the first third."""
    longest = max(other.spec.budget for other in runs if other.optimizer == run.optimizer)
    return [row for row in run.rows if (row.get("gradients") or 0) <= longest / LONGER] or run.rows[:1]


def end(rows: Sequence[Row], *, stopped: bool) -> Row:
    """The last row, or the one with the lowest validation NLL."""
    found = selected(rows) if stopped else None
    return rows[-1] if found is None else found


def tuned(runs: Sequence[Trajectory], optimizer: str, method: str, *, stopped: bool = False) -> Ends | None:
    """A method's ends at the setting whose validation NLL there is lowest on average; None where it never ran."""
    ends = settings(runs, optimizer, method, stopped=stopped)
    return min(ends, key=lambda item: _mean(item.values(JUDGE)), default=None)


def settings(runs: Sequence[Trajectory], optimizer: str, method: str, *, stopped: bool = False) -> list[Ends]:
    """A method's ends at every setting, in the order of the study."""
    found: dict[str, dict[int, Row]] = {}
    for run in runs:
        if (run.optimizer, method_of(run.spec)) == (optimizer, method):
            rows = found.setdefault(setting_of(run.spec), {})
            rows[run.spec.seed] = end(usual(run, runs), stopped=stopped)
    return [Ends(optimizer, method, setting, rows) for setting, rows in found.items()]


def gaps(one: Ends, other: Ends, key: str, *, instead: str | None = None) -> list[float]:
    """A quantity of one less that of another (or `instead` of it), for each seed that both have."""
    pairs = [(one.rows[seed].get(key), other.rows[seed].get(instead or key)) for seed in one.rows.keys() & other.rows]
    return [mine - theirs for mine, theirs in pairs if mine is not None and theirs is not None]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("inf")
