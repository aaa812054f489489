"""What the paper says of SAM's climb, judged by runs that made it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import mean, median

import numpy as np

from surefoot.runs.trajectory import Column, Trajectory
from surefoot.studies.claim import Claim, Verdict, slug
from surefoot.studies.paired import by_seed, difference_claim, differences

STATEMENTS = {  # by the quantity that has 1 where the statement holds, 0 where its assumption is not met, -1 else
    "sam_lemma": "Lemma 2: p~ <= exp(-rho ||g|| / 2) p, by kappa_min",
    "sam_lemma_along_gradient": "the same, by the curvature along the gradient",
    "sam_theorem": "Theorem 2: L~ >= L - lambda H(p) + H(p~)",
    "sam_weight_bound": "lambda >= lambda_0",
    "sam_calibrated_theorem": "Theorem 3, for CSAM's loss",
}
ONE_SAMPLE = {  # with batches of one sample
    "sam_lemma": "Lemma 1: p~ <= exp(-rho ||g|| / 2) p, by kappa_min",
    "sam_theorem": "Theorem 1: l~ >= l - lambda H(p) + H(p~)",
}
MOST = 0.9  # of the steps at which a fall is seen, and of the variance that a line explains in the median step
_IDS = {
    "sam_lemma": "lemma-2/kappa-min",
    "sam_lemma_along_gradient": "lemma-2/along-gradient",
    "sam_theorem": "theorem-2",
    "sam_weight_bound": "lambda-bound",
    "sam_calibrated_theorem": "theorem-3",
}
_ONE_SAMPLE_IDS = {"sam_lemma": "one-sample/lemma-1", "sam_theorem": "one-sample/theorem-1"}


def claims(runs: Sequence[Trajectory]) -> Iterator[Claim]:
    """Every claim about the climb that these runs can judge."""
    one_sample = [run for run in runs if run.spec.batch_size == 1]
    batches = [run for run in runs if run.spec.batch_size != 1]
    smallest = min(map(_rho, batches), default=0.0)
    at_smallest = [run for run in batches if _rho(run) == smallest]
    perturbed = [run for run in at_smallest if run.optimizer != "sgd"]
    yield from _inside(at_smallest)
    for key, statement in STATEMENTS.items():
        yield _proved(_IDS[key], statement, key, batches)
    for key, statement in ONE_SAMPLE.items() if one_sample else ():
        yield _proved(_ONE_SAMPLE_IDS[key], statement, key, one_sample)
    yield from _falls(perturbed)
    yield from _spared(batches)
    yield from _broken(batches)
    yield from _weights(perturbed)


def counted(runs: Iterable[Trajectory], key: str) -> tuple[int, int, int]:
    """At how many steps a statement holds, its assumption is not met, and it fails."""
    codes = [code for run in runs for code in run[f"train/{key}"].tolist()]
    return codes.count(1), codes.count(0), codes.count(-1)


def ratio(run: Trajectory, key: str) -> Column:
    """How much of the allowed negative curvature is used up at each step; 1 is the limit, NaN where not measured."""
    return quotient(run[f"train/{key}"], run["train/sam_threshold"])


def quotient(over: Column, under: Column) -> Column:
    """One column over another; NaN where one was not measured or the divisor is 0."""
    result: Column = np.divide(over, under, out=np.full(len(over), np.nan), where=under != 0)
    return result


def measured_values(runs: Iterable[Trajectory], key: str) -> list[float]:
    """A quantity of runs at all their steps that have it."""
    return [value for run in runs for value in run.measured(f"train/{key}")[0].tolist()]


def _rho(run: Trajectory) -> float:
    """How far the observed climb goes."""
    return float(run.spec.observers["sam_theory"].get("rho", 0.05))


def _of_steps(id: str, statement: str, number: int, steps: int, *, least: float = 1.0, measured: str = "") -> Claim:
    """The claim that something is so at a share `least` of the steps, or more."""
    return Claim(
        id=id,
        statement=statement,
        verdict=Verdict.of(number >= least * steps, decided=steps > 0),
        estimate=number / steps if steps else None,
        n=(steps,),
        unit="steps",
        measured=measured or f"at {number} of {steps} steps",
    )


def _inside(runs: Sequence[Trajectory]) -> Iterator[Claim]:
    """Whether kappa_min stays above what the lemma allows, by optimizer."""
    for variant in dict.fromkeys(run.spec.variant for run in runs):
        ratios = _joined(ratio(run, "sam_kappa_min") for run in runs if run.spec.variant == variant)
        yield _of_steps(
            f"kappa-min-above/{slug(variant)}",
            f"kappa_min stays above -||g|| / rho on the path, under {variant}",
            int((ratios <= 1).sum()),
            len(ratios),
        )


def _proved(name: str, statement: str, key: str, runs: Sequence[Trajectory]) -> Claim:
    """Whether a proved statement holds at every step at which its assumption is met."""
    met, unmet, failed = counted(runs, key)
    return _of_steps(
        f"theory/{name}",
        f"{statement}, wherever its assumption is met",
        met,
        met + failed,
        measured=f"{met} of {met + failed} steps; assumption not met at {unmet}",
    )


def _falls(runs: Sequence[Trajectory]) -> Iterator[Claim]:
    """Whether kappa_min is lower where the climb ends, and whether it goes there straight."""
    pairs = [run.measured("train/sam_kappa_start", "train/sam_kappa_end") for run in runs]
    starts, ends = (_joined(pair[place] for pair in pairs) for place in (0, 1))
    if not len(ends):
        return
    fallen = int((ends < starts).sum())
    yield _of_steps("kappa-min-falls", "kappa_min falls along the climb", fallen, len(ends), least=MOST)
    lines = measured_values(runs, "sam_kappa_line")
    middle = median(lines) if lines else None
    yield Claim(
        id="kappa-min-straight",
        statement="kappa_min goes along the climb on a straight line",
        verdict=Verdict.INCONCLUSIVE if middle is None else Verdict.of(middle >= MOST),
        estimate=middle,
        n=(len(lines),),
        unit="steps",
        measured="" if middle is None else f"R^2 {middle:.3f} in the median of {len(lines)} steps",
    )


def _spared(runs: Sequence[Trajectory]) -> Iterator[Claim]:
    """Whether the climb spares single samples where it lowers the geometric mean of their probabilities."""
    pairs = [run.measured("train/sam_lowered", "train/sam_rise") for run in runs]
    shares = _joined(lowered[rise > 0] for lowered, rise in pairs).tolist()
    if not shares:
        return
    spared = sum(share < 1 for share in shares)
    claim = _of_steps(
        "spared-samples",
        "the climb lowers the geometric mean of the probabilities without lowering each of them",
        spared,
        len(shares),
        measured=f"at {spared} of {len(shares)} steps; it lowers {mean(shares):.1%} of the samples in the mean",
    )
    yield replace(claim, verdict=Verdict.of(spared > 0))


def _broken(runs: Sequence[Trajectory]) -> Iterator[Claim]:
    """How much more often the assumption is broken at the largest rho than at the smallest, under SAM."""
    sam = [run for run in runs if run.optimizer == "sam"]
    rhos = sorted({_rho(run) for run in sam})
    if len(rhos) < 2:
        return
    small, large = ([run for run in sam if _rho(run) == rho] for rho in (rhos[0], rhos[-1]))
    off = [100 * value for value in differences(large, small, _share_outside).values()]
    claim = difference_claim(
        f"assumption-broken/{rhos[-1]:g}/{rhos[0]:g}",
        f"the assumption is broken more often at rho {rhos[-1]:g} than at {rhos[0]:g}",
        off,
        lower=False,
        of="% of the steps",
    )
    yield replace(claim, verdict=Verdict.NOT_SEEN) if off and not any(off) else claim


def _share_outside(run: Trajectory) -> float:
    ratios = _joined([ratio(run, "sam_kappa_min")])
    return float((ratios > 1).mean()) if len(ratios) else float("nan")


def _weights(runs: Sequence[Trajectory]) -> Iterator[Claim]:
    """Whether lambda is above 1, and grows along training."""
    for variant in dict.fromkeys(run.spec.variant for run in runs):
        group = [run for run in runs if run.spec.variant == variant]
        weights = measured_values(group, "sam_lambda")
        above = sum(weight > 1 for weight in weights)
        yield _of_steps(f"lambda-above-1/{slug(variant)}", f"lambda is above 1, under {variant}", above, len(weights))
        yield difference_claim(
            f"lambda-grows/{slug(variant)}",
            f"lambda is larger late than early, under {variant}",
            list(by_seed(group, _growth).values()),
            lower=False,
            digits=3,
        )


def _growth(run: Trajectory) -> float:
    """Mean lambda of the last quarter of the measured steps less that of the first; NaN where there are none."""
    weights = measured_values([run], "sam_lambda")
    quarter = max(len(weights) // 4, 1)
    return (sum(weights[-quarter:]) - sum(weights[:quarter])) / quarter if weights else float("nan")


def _joined(columns: Iterable[Column]) -> Column:
    """What columns hold that was measured, one after another."""
    values: Column = np.concatenate([np.empty(0), *columns])
    return values[np.isfinite(values)]
