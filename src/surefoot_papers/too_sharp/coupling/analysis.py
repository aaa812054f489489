"""Do calibration error and curvature rise and fall together? The tables of the coupling study."""

from collections.abc import Iterable, Sequence
from itertools import product
from statistics import median

from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Sampling, Trajectory
from surefoot.studies.analysis import need_observers
from surefoot.studies.correlation import (
    FEWEST,
    NAMES,
    PAIRS,
    SHARPNESSES,
    SPACING,
    Cells,
    Pair,
    correlation_of,
)
from surefoot.studies.outcome import Outcome
from surefoot.table import Cell, Estimate, Table
from surefoot_papers.too_sharp.coupling._paper import PAPERS_DATA, nearest_to_paper, paper_cell
from surefoot_papers.too_sharp.coupling.between_runs import between_runs
from surefoot_papers.too_sharp.coupling.claims import NOTES, coupling_claims

ORDER = ("gd", "sgd", "adamw", "muon", "sam", "bulk_sgd")
WINDOWS = ("whole", "before", "after", "first 25 %", "first 50 %", "first 75 %")


def check(spec: RunSpec) -> None:
    """Raise ValueError unless a run of this spec measures what the study correlates."""
    need_observers(spec, "calibration", "margins", "curvature")
    if "lr" not in spec.optimizer.options:
        raise ValueError(f"The coupling study compares learning rates, and {spec.label} names no `lr`.")


def outcome(runs: Iterable[Trajectory]) -> Outcome:
    """All tables and claims of the study; the paper's Table 1 beside where the runs are on its data."""
    done = [run for run in runs if len(run)]
    compare = bool(done) and all(run.spec.data.name in PAPERS_DATA for run in done)
    names = {run.optimizer for run in done}
    optimizers = [name for name in ORDER if name in names] + sorted(names - set(ORDER))
    cells = correlations(done, optimizers)
    return Outcome(
        tables=(
            _table_one(cells, optimizers, sampling="equal", compare=compare),
            *([nearest_to_paper(cells, optimizers)] if compare else []),
            _table_one(cells, optimizers, sampling="log", compare=False),
            _windows(cells, optimizers),
            _peaks(done, optimizers),
            between_runs(done, optimizers),
        ),
        claims=tuple(coupling_claims(cells, done, optimizers)),
        title="What the paper (Too Sharp, Too Sure) says, and what these runs say",
        notes=NOTES,
    )


def correlations(runs: Sequence[Trajectory], optimizers: Sequence[str]) -> Cells:
    """The correlation of every pair that was measured, by optimizer, sampling of steps and window of the run."""
    pairs = [pair for pair in PAIRS if pair[2] != "batch" or any(run.has(SHARPNESSES["batch"]) for run in runs)]
    return {
        (optimizer, pair, sampling, window): correlation_of(runs, optimizer, pair, sampling=sampling, window=window)
        for optimizer, pair, sampling, window in product(optimizers, pairs, SPACING, WINDOWS)
    }


def pairs_of(cells: Cells) -> list[Pair]:
    """The pairs of a calibration error and a sharpness that were correlated."""
    return list(dict.fromkeys(pair for _, pair, _, _ in cells))


def _table_one(cells: Cells, optimizers: Sequence[str], *, sampling: Sampling, compare: bool) -> Table:
    columns = ["calibration error", "sharpness"]
    for optimizer in optimizers:
        columns += [optimizer, f"{optimizer}, paper"] if compare else [optimizer]
    rows = []
    for pair in pairs_of(cells):
        split, error, sharpness = pair
        row: list[Cell] = [f"{split} {error.upper()}", NAMES[sharpness]]
        for optimizer in optimizers:
            row.append(cells[optimizer, pair, sampling, "whole"].estimate)
            if compare:
                row.append("-" if sharpness == "batch" else paper_cell(split, error, optimizer))
        rows.append(tuple(row))
    return Table(
        name="correlation" if sampling == "equal" else "correlation-log-spaced",
        title=f"Pearson r of calibration error with sharpness, {SPACING[sampling]} steps, whole run",
        columns=tuple(columns),
        rows=tuple(rows),
        notes=("Mean ± sample standard deviation over n learning rates, each the mean over its seeds.",),
    )


def _windows(cells: Cells, optimizers: Sequence[str]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for optimizer, pair in product(optimizers, pairs_of(cells)):
        split, error, sharpness = pair
        if error == "ece":
            inside = [cells[optimizer, pair, "equal", window].estimate for window in WINDOWS]
            rows.append((optimizer, f"{split} ECE", NAMES[sharpness], *inside))
    return Table(
        name="windows",
        title="The same r inside windows of the run: before and after interpolation, and up to an earlier end",
        columns=("optimizer", "calibration error", "sharpness", *WINDOWS),
        rows=tuple(rows),
        notes=(
            "Interpolation: the first observed step with every training sample classified correctly. A run that never "
            f"interpolates is all before. A window needs {FEWEST} observations; n learning rates have them.",
        ),
    )


def _peaks(runs: Sequence[Trajectory], optimizers: Sequence[str]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for optimizer in optimizers:
        for lr in sorted({run.lr for run in runs if run.optimizer == optimizer}):
            group = [run for run in runs if (run.optimizer, run.lr) == (optimizer, lr)]
            edge = 2 / lr if optimizer == "gd" else None
            rows.append((optimizer, lr, *_peak_cells(group), edge, *_end_cells(group)))
    return Table(
        name="peaks",
        title="Where training ECE and sharpness peak, and how the runs end",
        columns=(
            "optimizer",
            "lr",
            "peak train ECE",
            "confidence - accuracy there",
            "step of peak ECE",
            "peak GN sharpness",
            "step of peak sharpness",
            "2/lr",
            "interpolated at (runs)",
            "final test ECE",
            "final test accuracy",
        ),
        rows=tuple(rows),
        notes=(
            "n seeds; steps are medians over seeds. Above 2/lr plain GD is unstable to first order: it bounces and the "
            "sharpness falls back. Confidence below accuracy at the peak of ECE is underconfidence.",
        ),
    )


def _peak_cells(group: Sequence[Trajectory]) -> tuple[Cell, ...]:
    ece, sharpness = (_at_peak(group, key) for key in ("train/ece", "train/ggn_sharpness"))
    return (
        Estimate.of_measured(there["train/ece"] for there in ece),
        Estimate.of_measured(there["train/confidence"] - there["train/accuracy"] for there in ece),
        _median_step([there["step"] for there in ece]),
        Estimate.of_measured(there["train/ggn_sharpness"] for there in sharpness),
        _median_step([there["step"] for there in sharpness]),
    )


def _at_peak(group: Sequence[Trajectory], key: str) -> list[dict[str, float]]:
    """What the runs that measured a quantity have where it is largest."""
    keys = ("step", "train/ece", "train/confidence", "train/accuracy", "train/ggn_sharpness")
    places = [(run, run.peak(key)) for run in group]
    return [{name: float(run[name][place]) for name in keys} for run, place in places if place is not None]


def _end_cells(group: Sequence[Trajectory]) -> tuple[Cell, ...]:
    reached = [float(run.interpolated) for run in group if run.interpolated is not None]
    return (
        f"{_median_step(reached)} ({len(reached)} of {len(group)})" if reached else None,
        Estimate.of_measured(run.last("test/ece") for run in group),
        Estimate.of_measured(run.last("test/accuracy") for run in group),
    )


def _median_step(steps: Sequence[float]) -> int | None:
    return int(median(steps)) if steps else None
