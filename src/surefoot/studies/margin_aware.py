"""The margin-aware objective against cross-entropy, stopped in time or not, and against what else calibrates."""

from collections.abc import Iterable, Sequence
from typing import Any

from surefoot.runs.selection import selected
from surefoot.runs.spec import RunSpec
from surefoot.studies.comparison import interval_of, verdict
from surefoot.studies.correlation import Trajectory
from surefoot.studies.tuned import LONGER, OURS, PLAIN, Ends, gaps, method_of, settings, tuned, usual
from surefoot.table import Cell, Estimate, Table

SCORES = {"test/accuracy": "accuracy", "test/ece": "ECE", "test/debiased_rms_ce": "debiased RMSCE", "test/nll": "NLL"}
TEMPERED = {"test/ece": "test/ece_temperature", "test/nll": "test/nll_temperature"}
MISCALIBRATED = 0.05  # debiased, of cross-entropy: below, there is nothing to cut
CUTS = {"muon": 3.4}  # reported for the paper, second-hand
CUT = 2.0  # for every other optimizer
POINT, SAME, KEPT = 0.01, 0.01, 0.03  # accuracy that may be lost, ECE that is the same, ECE that is kept
UNSURE = "cannot tell at this scale"


def check(spec: RunSpec) -> None:
    """Raise ValueError unless a run of this spec measures what the study compares."""
    for name in ("calibration", "margins", "scores", "posthoc"):
        if name not in spec.observers:
            raise ValueError(f"The margin-aware study needs the observer {name}, and {spec.label} does without it.")
    if spec.select == "last":
        raise ValueError(f"The margin-aware study needs `select` to be 'validation nll', and {spec.label} has 'last'.")


def outcome(runs: Iterable[Trajectory], *, compare_with_paper: bool) -> dict[str, Any]:
    """Scores of every method, differences from ours, how long calibration is kept, the ablation, the claims."""
    found = [run for run in runs if run.rows]
    return {
        "figures": "comparison",
        "cells": [],
        "tables": [_scores(found), _differences(found), _longer(found), _ablation(found), _choices(found)],
        "claims": _claims(found),
        "curves": [],
    }


def _optimizers(runs: Sequence[Trajectory]) -> list[str]:
    return list(dict.fromkeys(run.optimizer for run in runs))


def _methods(runs: Sequence[Trajectory]) -> list[str]:
    named = dict.fromkeys(method_of(run.spec) for run in runs)
    return [OURS, PLAIN, *(name for name in named if name not in (OURS, PLAIN, "ablation"))]


def _scores(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for optimizer in _optimizers(runs):
        for method in _methods(runs):
            for stopped in (False, True):
                ends = tuned(runs, optimizer, method, stopped=stopped)
                if ends is not None:
                    name = method + (", stopped" if stopped else "")
                    rows.append((optimizer, name, *(_told(ends.values(key)) for key in SCORES)))
        plain = tuned(runs, optimizer, PLAIN)
        if plain is not None:
            cells = (_told(plain.values(TEMPERED.get(key, key))) for key in SCORES if key != "test/debiased_rms_ce")
            accuracy, error, score = cells
            rows.append((optimizer, "cross_entropy, temperature", accuracy, error, None, score))
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
                pairs = _pairs(runs, method, stopped=stopped)
                cells = [_interval([gap for one, other in pairs for gap in gaps(one, other, key)]) for key in SCORES]
                rows.append((method + (", stopped" if stopped else ""), len(pairs), *cells))
    return Table(
        name="differences",
        title="Ours after the usual budget less another, pooled over optimizers: mean and 95 % interval (Student's)",
        columns=("other", "optimizers", *SCORES.values()),
        rows=tuple(rows),
        notes=("Paired by optimizer and seed; the pairs are taken as independent.",),
    )


def _pairs(runs: Sequence[Trajectory], method: str, *, stopped: bool) -> list[tuple[Ends, Ends]]:
    both = [(tuned(runs, o, OURS), tuned(runs, o, method, stopped=stopped)) for o in _optimizers(runs)]
    return [(ours, other) for ours, other in both if ours is not None and other is not None]


def kept(run: Trajectory, runs: Sequence[Trajectory]) -> tuple[float, float, float]:
    """Test ECE at its best since the lowest validation NLL of the usual budget, after that budget, and at the end."""
    first = usual(run, runs)
    begun = (selected(first) or first[0])["step"] or 0
    best = min(row["test/ece"] or 0.0 for row in run.rows if (row["step"] or 0) >= begun)
    return best, first[-1]["test/ece"] or 0.0, run.rows[-1]["test/ece"] or 0.0


def _long(runs: Sequence[Trajectory], optimizer: str, method: str) -> list[tuple[float, float, float]]:
    mine = [run for run in runs if (run.optimizer, method_of(run.spec)) == (optimizer, method)]
    return [kept(run, runs) for run in mine if len(usual(run, runs)) < len(run.rows)]


def _longer(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for optimizer in _optimizers(runs):
        for method in (OURS, PLAIN):
            found = _long(runs, optimizer, method)
            if found:
                rows.append((optimizer, method, *(_told(list(column)) for column in zip(*found, strict=True))))
    return Table(
        name="longer",
        title=f"Test ECE of runs {LONGER} times as long",
        columns=("optimizer", "method", "at its best", "after the usual budget", "at the end"),
        rows=tuple(rows),
        notes=("At its best: the lowest from the step on that early stopping would have stopped at.",),
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
    for optimizer in _optimizers(runs):
        for method in (OURS, PLAIN, "ablation"):
            for ends in settings(runs, optimizer, method):
                name = ends.setting or method
                rows.append((optimizer, name, *(_told(ends.values(key)) for key in columns)))
    return Table(
        name="ablation",
        title="What the parts do, after the usual budget",
        columns=("optimizer", "setting", *columns.values()),
        rows=tuple(rows),
        notes=("Settings are changes of the defaults. Sharpness and constants only where they were measured.",),
    )


def _choices(runs: Sequence[Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for optimizer in _optimizers(runs):
        for method in _methods(runs):
            for stopped in (False, True):
                offered = settings(runs, optimizer, method, stopped=stopped)
                if len(offered) > 1:
                    told = "; ".join(
                        f"{item.setting or 'none'}: {Estimate.of(item.values('validation/nll'))}" for item in offered
                    )
                    best = tuned(runs, optimizer, method, stopped=stopped)
                    rows.append(
                        (optimizer, method, "stopped" if stopped else "last", best.setting if best else "", told)
                    )
    return Table(
        name="choices",
        title="Which options the validation NLL chose",
        columns=("optimizer", "method", "end", "chosen", "validation NLL of all"),
        rows=tuple(rows),
    )


def _claims(runs: Sequence[Trajectory]) -> Table:
    rows = [_cut(runs, optimizer) for optimizer in _optimizers(runs)]
    last, stopped = _pairs(runs, PLAIN, stopped=False), _pairs(runs, PLAIN, stopped=True)

    def pooled(pairs: Sequence[tuple[Ends, Ends]], key: str) -> list[float]:
        return [gap for one, other in pairs for gap in gaps(one, other, key)]

    accuracy, score = (pooled(last, key) for key in ("test/accuracy", "test/nll"))
    rows.append(("accuracy is at most a point below cross-entropy's", _interval(accuracy), _above(accuracy, -POINT)))
    rows.append(("NLL is below cross-entropy's", _interval(score), verdict(score, lower=True)))
    error = pooled(stopped, "test/ece")
    higher = _above([-gap for gap in error], -SAME)
    rows.append((f"ECE is at most {SAME} above that of cross-entropy stopped in time", _interval(error), higher))
    score, accuracy = (pooled(stopped, key) for key in ("test/nll", "test/accuracy"))
    either = (verdict(score, lower=True), verdict(accuracy, lower=False))
    told = f"NLL {_interval(score)}; accuracy {_interval(accuracy)}"
    said = "holds" if "holds" in either else "does not hold" if "does not hold" in either else UNSURE
    rows.append(("NLL or accuracy is better than that of cross-entropy stopped in time", told, said))
    rows += [_keeps(runs, optimizer) for optimizer in _optimizers(runs)]
    return Table(
        name="claims",
        title="What the objective should do, and what these runs say",
        columns=("claim", "measured", "verdict"),
        rows=tuple(rows),
        notes=(
            "Differences are ours less the other, paired by optimizer and seed, with Student's 95 % interval; a claim "
            "holds or does not where the whole interval lies on one side. The last two kinds go by means over seeds.",
        ),
    )


def _cut(runs: Sequence[Trajectory], optimizer: str) -> tuple[Cell, ...]:
    least = CUTS.get(optimizer, CUT)
    claim = f"{optimizer}: ECE is at least {least:g} times lower than cross-entropy's"
    ours, plain = tuned(runs, optimizer, OURS), tuned(runs, optimizer, PLAIN)
    if ours is None or plain is None:
        return claim, "-", UNSURE
    debiased = _mean(plain.values("test/debiased_rms_ce"))
    mine, theirs = _mean(ours.values("test/ece")), _mean(plain.values("test/ece"))
    told = f"{theirs:.3f} / {mine:.3f} = {theirs / mine if mine else float('inf'):.1f} (n={len(ours.rows)})"
    if debiased <= MISCALIBRATED:
        return claim, told, f"cross-entropy's is {debiased:.3f} debiased: nothing to cut"
    return claim, told, "holds" if theirs >= least * mine else "does not hold"


def _keeps(runs: Sequence[Trajectory], optimizer: str) -> tuple[Cell, ...]:
    claim = f"{optimizer}: {LONGER} times longer, ECE stays within {KEPT} of its best, and cross-entropy's does not"
    losses = [[last - best for best, _, last in _long(runs, optimizer, method)] for method in (OURS, PLAIN)]
    if not all(losses):
        return claim, "-", UNSURE
    ours, plain = map(_mean, losses)
    return claim, f"{ours:+.3f} against {plain:+.3f}", "holds" if ours <= KEPT < plain else "does not hold"


def _above(values: Sequence[float], limit: float) -> str:
    interval = interval_of(values)
    if interval is None:
        return UNSURE
    return "holds" if interval[0] > limit else "does not hold" if interval[1] < limit else UNSURE


def _interval(values: Sequence[float]) -> str:
    interval = interval_of(values)
    if not values:
        return "-"
    spread = "" if interval is None else f" [{interval[0]:+.4f}, {interval[1]:+.4f}]"
    return f"{_mean(values):+.4f}{spread} (n={len(values)})"


def _told(values: Sequence[float]) -> str | None:
    over = Estimate.of(values)
    if over.mean is None:
        return None
    return f"{over.mean:.4g}" + ("" if over.std is None else f" ± {over.std:.2g}") + f" (n={over.n})"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("nan")
