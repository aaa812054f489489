"""Do the bounds hold along training, how tight are they, are their constants bounded, and what carries the coupling?"""

from collections.abc import Iterable, Sequence
from statistics import median

from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.analysis import need_observers
from surefoot.studies.outcome import Outcome
from surefoot.table import Cell, Table
from surefoot_papers.too_sharp.certificates._carriers import carriers
from surefoot_papers.too_sharp.certificates._claims import NOTES, TITLE, certificate_claims
from surefoot_papers.too_sharp.certificates._constants import architectures, constants, measured, widths_of
from surefoot_papers.too_sharp.certificates._proxies import proxies

BOUNDS = {  # quantity of the bound -> what it bounds, and its name for people
    "bound_ece": ("certified_ece", "ECE <= (K - 1) Q (4.1)"),
    "bound_ece_ours": ("certified_ece", "ECE <= mean (1 - p_y) (ours)"),
    "bound_sharpness": ("certified_sharpness", "sharpness <= 2 C_J^2 (K - 1) Q (4.1)"),
    "bound_sharpness_free": ("certified_sharpness", "the same, label-free (B.6)"),
    "bound_sharpness_ours": ("certified_sharpness", "sharpness <= mean sharpness of one sample (ours)"),
}


def check(spec: RunSpec) -> None:
    """Raise ValueError unless a run of this spec measures what the study shows."""
    need_observers(spec, "certificates", "margins", "calibration", "curvature")


def outcome(runs: Iterable[Trajectory]) -> Outcome:
    """Slacks, constants, shares and claims; runs with other widths than the first are there for the constants."""
    observed = [run for run in runs if len(run)]
    common = widths_of(observed[0]) if observed else ()
    along = [run for run in observed if widths_of(run) == common]
    tables = (
        *(_slacks(along), constants(along), architectures(observed), carriers(along)),
        *(_deciles(along), proxies(along)),
    )
    return Outcome(
        tables=tuple(table for table in tables if table is not None),
        claims=certificate_claims(observed, along),
        title=TITLE,
        notes=NOTES,
    )


def _slack(run: Trajectory, split: str, bound: str) -> list[float]:
    """The bound over what it bounds, at the observed steps where neither is 0."""
    value, limit = run.measured(f"{split}/{BOUNDS[bound][0]}", f"{split}/{bound}")
    where = (value != 0) & (limit != 0)
    slack: list[float] = (limit[where] / value[where]).tolist()
    return slack


def _failures(run: Trajectory, split: str) -> str | None:
    counts = run.measured(f"{split}/failed")[0]
    return f"{int(counts.sum())} in {len(counts)} steps" if len(counts) else None


def _slacks(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        for split in ("train", "test"):
            slacks = [_slack(run, split, bound) for bound in BOUNDS]
            cells = [f"{median(each):.3g} ({min(each):.3g} to {max(each):.3g})" if each else None for each in slacks]
            rows.append((run.spec.variant, run.lr, split, *cells, _failures(run, split)))
    return Table(
        name="slacks",
        title="Bound over measured value along training: median (smallest to largest)",
        columns=("optimizer", "lr", "split", *(name for _, name in BOUNDS.values()), "failed"),
        rows=tuple(rows),
        notes=("1 is tight. Failed: inequalities that did not hold, summed over the observed steps.",),
    )


def _deciles(runs: Sequence[Trajectory]) -> Table | None:
    rows: list[tuple[Cell, ...]] = []
    for run in (run for run in runs if "robust_margins" in run.spec.observers):
        for split in ("train", "test"):
            gaps = [measured(run.last(f"{split}/ece_decile_{number:02d}")) for number in range(1, 11)]
            rows.append((run.spec.variant, run.lr, split, *gaps))
    if not rows:
        return None
    return Table(
        name="deciles",
        title="|confidence - accuracy| by decile of the robust margin after the last step, least robust first",
        columns=("optimizer", "lr", "split", *(str(number) for number in range(1, 11))),
        rows=tuple(rows),
        notes=("Robust margins by an attack. Deciles by a margin that knows the label: low ones hold the errors.",),
    )
