"""The margin-aware objective against cross-entropy, stopped in time or not, and against what else calibrates."""

from collections.abc import Iterable, Sequence

from surefoot.runs.selection import JUDGE
from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.analysis import need_observers
from surefoot.studies.outcome import Outcome
from surefoot.studies.paired import mean_with_interval
from surefoot.table import Cell, Estimate, Table
from surefoot_papers.too_sharp.margin_aware._claims import (
    NOTES,
    TITLE,
    corrupted,
    kept,
    lengthened,
    margin_claims,
    paired,
    pooled,
)
from surefoot_papers.too_sharp.margin_aware._tuned import LONGER, OURS, PLAIN, method_of, optimizers, settings, tuned

SCORES = {"test/accuracy": "accuracy", "test/ece": "ECE", "test/debiased_rms_ce": "debiased RMSCE", "test/nll": "NLL"}
TEMPERED = {  # what becomes of them by a temperature, where it is measured
    "test/accuracy": "test/accuracy",
    "test/ece": "test/ece_temperature",
    "test/debiased_rms_ce": None,
    "test/nll": "test/nll_temperature",
}


def check(spec: RunSpec) -> None:
    """Raise ValueError unless a run of this spec measures what the study compares."""
    need_observers(spec, "calibration", "margins", "scores", "posthoc")
    if spec.select == "last":
        raise ValueError(f"The margin-aware study needs `select` to be 'validation nll', and {spec.label} has 'last'.")


def outcome(runs: Iterable[Trajectory]) -> Outcome:
    """Scores of every method, differences from ours, how long calibration is kept, the ablation, the claims."""
    observed = [run for run in runs if len(run)]
    tables = (_scores(observed), _differences(observed), _longer(observed), _ablation(observed), _choices(observed))
    return Outcome(
        tables=(*tables, *([_corruption(observed)] if corrupted(observed, PLAIN) else [])),
        claims=margin_claims(observed),
        title=TITLE,
        notes=NOTES,
    )


def _methods(runs: Sequence[Trajectory]) -> list[str]:
    named = dict.fromkeys(method_of(run.spec) for run in runs)
    return [OURS, PLAIN, *(name for name in named if name not in (OURS, PLAIN, "ablation"))]


def _scores(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for optimizer in optimizers(runs):
        for method in _methods(runs):
            for stopped in (False, True):
                ends = tuned(runs, optimizer, method, stopped=stopped)
                if ends is not None:
                    name = method + (", stopped" if stopped else "")
                    rows.append((optimizer, name, *(_mean_and_deviation(ends.values(key)) for key in SCORES)))
        for method in (OURS, PLAIN):
            ends = tuned(runs, optimizer, method)
            if ends is not None:
                cells = (_mean_and_deviation(ends.values(key)) if key else None for key in TEMPERED.values())
                rows.append((optimizer, f"{method}, temperature", *cells))
    return Table(
        name="scores",
        title="On the test set after the usual budget, mean and deviation over seeds",
        columns=("optimizer", "method", *SCORES.values()),
        rows=tuple(rows),
        notes=(
            "Stopped: at the observation with the lowest validation NLL. Options of every method but ours are those "
            "with the lowest mean validation NLL, chosen apart for either end; the temperature is fitted there too.",
        ),
    )


def _differences(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for method in _methods(runs):
        for stopped in (False, True):
            if (method, stopped) != (OURS, False):
                pairs = paired(runs, method, stopped=stopped)
                cells = [mean_with_interval(pooled(pairs, key), digits=4) for key in SCORES]
                rows.append((method + (", stopped" if stopped else ""), len(pairs), *cells))
    pairs = paired(runs, PLAIN, stopped=False)
    tempered = [
        mean_with_interval(pooled(pairs, key, than=than), digits=4) if than else None for key, than in TEMPERED.items()
    ]
    rows.append((f"{PLAIN}, temperature", len(pairs), *tempered))
    both = paired(runs, PLAIN, stopped=True, ours_stopped=True)
    cells = [mean_with_interval(pooled(both, key), digits=4) for key in SCORES]
    rows.append((f"{PLAIN}, stopped; ours stopped too", len(both), *cells))
    return Table(
        name="differences",
        title="Ours after the usual budget less another, pooled over optimizers: mean and 95 % interval (Student's)",
        columns=("other", "optimizers", *SCORES.values()),
        rows=tuple(rows),
        notes=("Paired by optimizer and seed; the pairs are taken as independent.",),
    )


def _longer(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for optimizer in optimizers(runs):
        for method in (OURS, PLAIN):
            longer = lengthened(runs, optimizer, method)
            ends = [(*kept(run, runs), run.last("test/accuracy"), run.last("test/nll")) for run in longer]
            if ends:
                rows.append((optimizer, method, *(_mean_and_deviation(values) for values in zip(*ends, strict=True))))
    return Table(
        name="longer",
        title=f"Test ECE of runs {LONGER} times as long, and what else they end with",
        columns=(
            *("optimizer", "method", "at its best", "after the usual budget", "at the end"),
            *("accuracy at the end", "NLL at the end"),
        ),
        rows=tuple(rows),
        notes=("At its best: the lowest from the step on that early stopping would have stopped at.",),
    )


def _corruption(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    ours, plain = corrupted(runs, OURS), corrupted(runs, PLAIN)
    for optimizer in optimizers(runs):
        for name, by_run, key in (
            (OURS, ours, "ece"),
            (f"{OURS}, temperature", ours, "ece_temperature"),
            (PLAIN, plain, "ece"),
            (f"{PLAIN}, temperature", plain, "ece_temperature"),
        ):
            own = [scores for (other, _), scores in by_run.items() if other == optimizer]
            if own:
                accuracy, error = ([scores[what] for scores in own] for what in ("accuracy", key))
                rows.append((optimizer, name, _mean_and_deviation(accuracy), _mean_and_deviation(error)))
    return Table(
        name="corruption",
        title="On corrupted test images, averaged over corruptions: mean and deviation over seeds",
        columns=("optimizer", "method", "accuracy", "ECE"),
        rows=tuple(rows),
        notes=(
            "After the usual budget where it was measured there, else after the last step. The temperature is that of "
            "the clean validation split.",
        ),
    )


def _ablation(runs: Sequence[Trajectory]) -> Table:
    inside = {
        "train/nll": "train NLL",
        "train/log_margin_moment": "train ln Q",
        "train/certified_sharpness": "train GN sharpness",
        "train/c_j": "C_J",
        "train/bound_ece_ours": "bound on train ECE",
    }
    columns = {**SCORES, **inside}
    rows: list[tuple[Cell, ...]] = []
    for optimizer in optimizers(runs):
        for method in (OURS, PLAIN, "ablation"):
            for ends in settings(runs, optimizer, method):
                name = ends.setting or method
                rows.append((optimizer, name, *(_mean_and_deviation(ends.values(key)) for key in columns)))
    return Table(
        name="ablation",
        title="What the parts do, after the usual budget",
        columns=("optimizer", "setting", *columns.values()),
        rows=tuple(rows),
        notes=("Settings are changes of the defaults. Sharpness and constants only where they were measured.",),
    )


def _choices(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for optimizer in optimizers(runs):
        for method in _methods(runs):
            for stopped in (False, True):
                offered = settings(runs, optimizer, method, stopped=stopped)
                if len(offered) > 1:
                    scores = "; ".join(
                        f"{ends.setting or 'none'}: {Estimate.of(ends.values(JUDGE))}" for ends in offered
                    )
                    best = tuned(runs, optimizer, method, stopped=stopped)
                    end = "stopped" if stopped else "last"
                    rows.append((optimizer, method, end, best.setting if best else "", scores))
    return Table(
        name="choices",
        title="Which options the validation NLL chose",
        columns=("optimizer", "method", "end", "chosen", "validation NLL of all"),
        rows=tuple(rows),
    )


def _mean_and_deviation(values: Sequence[float]) -> str | None:
    over = Estimate.of_measured(values)
    if over.mean is None:
        return None
    return f"{over.mean:.4g}" + ("" if over.std is None else f" ± {over.std:.2g}") + f" (n={over.n})"
