"""What the paper says of SAM's climb, judged by runs that made it."""

from collections.abc import Sequence
from statistics import mean, median

from surefoot.runs.trajectory import Row
from surefoot.studies.correlation import Trajectory
from surefoot.studies.paired import by_seed, differences, verdict, with_interval
from surefoot.table import Cell, Table

STATEMENTS = {
    "sam_lemma": "Lemma 2: p~ <= exp(-rho ||g|| / 2) p, by kappa_min",
    "sam_lemma_along_gradient": "the same, by the curvature along the gradient",
    "sam_theorem": "Theorem 2: L~ >= L - lambda H(p) + H(p~)",
    "sam_weight_bound": "lambda >= lambda_0",
    "sam_calibrated_theorem": "Theorem 3, for CSAM's loss",
}
ALONE = {  # with batches of one sample
    "sam_lemma": "Lemma 1: p~ <= exp(-rho ||g|| / 2) p, by kappa_min",
    "sam_theorem": "Theorem 1: l~ >= l - lambda H(p) + H(p~)",
}
MOST = 0.9  # of the steps at which a fall is seen, and of the variance that a line explains in the median step


def claims(runs: Sequence[Trajectory]) -> Table:
    """Every claim about the climb that these runs can judge."""
    alone = [run for run in runs if run.spec.batch_size == 1]
    batches = [run for run in runs if run.spec.batch_size != 1]
    least = min(map(_rho, batches), default=0.0)
    usual = [run for run in batches if _rho(run) == least]
    rows: list[tuple[Cell, ...]] = []
    for name in dict.fromkeys(run.spec.variant for run in usual):
        part = [row for run in usual if run.spec.variant == name for row in run.rows]
        inside = sum(ratio(row, "sam_kappa_min") <= 1 for row in part)
        rows.append(
            (
                f"kappa_min stays above -||g|| / rho on the path, under {name}",
                f"at {inside} of {len(part)} steps",
                "holds" if inside == len(part) else "does not hold",
            )
        )
    rows += [_judged(name, key, batches) for key, name in STATEMENTS.items()]
    rows += [_judged(name, key, alone) for key, name in ALONE.items() if alone]
    climbing = [run for run in usual if run.optimizer != "sgd"]
    rows += [*_falls(climbing), *_spared(batches), *_breaks(batches), *_weights(climbing)]
    return Table(
        name="claims",
        title="What the paper (Towards Understanding the Calibration Benefits of SAM) says, and what these runs say",
        columns=("claim", "measured", "verdict"),
        rows=tuple(rows),
        notes=(
            f"A fall must be seen at {MOST:.0%} of the steps, and a straight line explain {MOST:.0%} of kappa_min's "
            "variance on the path in the median step. Early and late: the means of the first and the last quarter of a "
            "run's observed steps. Intervals are over seeds.",
        ),
    )


def counted(rows: Sequence[Row], key: str) -> tuple[int, int, int]:
    """At how many steps a statement holds, its assumption is not met, and it fails."""
    codes = [row[f"train/{key}"] for row in rows]
    return codes.count(1), codes.count(0), codes.count(-1)


def ratio(row: Row, key: str) -> float:
    """How much of the allowed negative curvature is used up; 1 is the limit."""
    return (row[f"train/{key}"] or 0) / (row["train/sam_threshold"] or -1)


def _rho(run: Trajectory) -> float:
    """How far the observed climb goes."""
    return float(run.spec.observers["sam_theory"].get("rho", 0.05))


def _judged(name: str, key: str, runs: Sequence[Trajectory]) -> tuple[Cell, ...]:
    met, unmet, failed = counted([row for run in runs for row in run.rows], key)
    return (
        f"{name}, wherever its assumption is met",
        f"{met} of {met + failed} steps; assumption not met at {unmet}",
        "does not hold" if failed else "holds" if met else "cannot tell: the assumption is never met",
    )


def _falls(runs: Sequence[Trajectory]) -> list[tuple[Cell, ...]]:
    """Whether kappa_min is lower where the climb ends, and whether it goes there straight."""
    rows = [row for run in runs for row in run.rows if row.get("train/sam_kappa_end") is not None]
    if not rows:
        return []
    fallen = sum((row["train/sam_kappa_end"] or 0) < (row["train/sam_kappa_start"] or 0) for row in rows)
    lines = [value for row in rows if (value := row.get("train/sam_kappa_line")) is not None]
    middle = median(lines) if lines else 0.0
    return [
        (
            "kappa_min falls along the climb",
            f"at {fallen} of {len(rows)} steps",
            "holds" if fallen >= MOST * len(rows) else "does not hold",
        ),
        (
            "kappa_min goes along the climb on a straight line",
            f"R^2 {middle:.3f} in the median of {len(lines)} steps",
            "holds" if middle >= MOST else "does not hold",
        ),
    ]


def _spared(runs: Sequence[Trajectory]) -> list[tuple[Cell, ...]]:
    """Whether the climb spares single samples where it lowers the geometric mean of their probabilities."""
    rows = [row for run in runs for row in run.rows if row.get("train/sam_lowered") is not None]
    shares = [row["train/sam_lowered"] or 0.0 for row in rows if (row["train/sam_rise"] or 0.0) > 0]
    if not shares:
        return []
    spared = sum(share < 1 for share in shares)
    return [
        (
            "the climb lowers the geometric mean of the probabilities without lowering each of them",
            f"at {spared} of {len(shares)} steps; it lowers {mean(shares):.1%} of the samples in the mean",
            "holds" if spared else "does not hold",
        )
    ]


def _breaks(runs: Sequence[Trajectory]) -> list[tuple[Cell, ...]]:
    """How much more often the assumption is broken at the largest rho than at the smallest, under SAM."""
    sam = [run for run in runs if run.optimizer == "sam"]
    rhos = sorted({_rho(run) for run in sam})
    if len(rhos) < 2:
        return []
    small, large = ([run for run in sam if _rho(run) == rho] for rho in (rhos[0], rhos[-1]))
    off = [100 * value for value in differences(large, small, _outside).values()]
    return [
        (
            f"the assumption is broken more often at rho {rhos[-1]:g} than at {rhos[0]:g}",
            f"% of the steps: {with_interval(off)}" if off else "-",
            verdict(off, lower=False) if any(off) else "does not hold",
        )
    ]


def _outside(run: Trajectory) -> float:
    return sum(ratio(row, "sam_kappa_min") > 1 for row in run.rows) / len(run.rows)


def _weights(runs: Sequence[Trajectory]) -> list[tuple[Cell, ...]]:
    """Whether lambda is above 1, and grows along training."""
    rows: list[tuple[Cell, ...]] = []
    for name in dict.fromkeys(run.spec.variant for run in runs):
        part = [run for run in runs if run.spec.variant == name]
        weights = [row["train/sam_lambda"] or 0 for run in part for row in run.rows]
        above = sum(weight > 1 for weight in weights)
        off = list(by_seed(part, _growth).values())
        rows += [
            (
                f"lambda is above 1, under {name}",
                f"at {above} of {len(weights)} steps",
                "holds" if above == len(weights) else "does not hold",
            ),
            (
                f"lambda is larger late than early, under {name}",
                with_interval(off, digits=3) or "-",
                verdict(off, lower=False),
            ),
        ]
    return rows


def _growth(run: Trajectory) -> float:
    """Mean lambda of the last quarter of the observed steps less that of the first."""
    weights = [row["train/sam_lambda"] or 0 for row in run.rows]
    quarter = max(len(weights) // 4, 1)
    return (sum(weights[-quarter:]) - sum(weights[:quarter])) / quarter
