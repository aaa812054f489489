"""Which bounds are met at the observed steps of runs, each inequality judged by itself."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from surefoot.runs.trajectory import Trajectory
from surefoot.studies.claim import Claim, Verdict

_LARGEST = 700.0  # exponent that a float can hold; narrow - wide is at most 0 where the two are right
_ROUNDING = 1e-6  # relative, of numbers that rows hold

Evaluation = Literal["met", "fails", "unclear", "not applicable"]


@dataclass(frozen=True)
class Inequality:
    """A bound, or several that are claimed together, and how a run's observations show whether it was met.

    `counter` is the quantity that counts failures, of this inequality and others. Where it is not 0, `sides` (what is
    bounded, and the bound) show whether it was this one; without them that is unclear. Where nothing counted them,
    `counter` is a quantity that must have been measured, and `sides` decide, the bound `widened` by
    exp(first - second).
    """

    name: str  # the end of the claim's id
    statement: str
    counter: Literal["failed", "robust_failed", "log_robust_moment"]
    interpolating: bool = False  # claims something only where every sample is right
    needs: str = ""  # a quantity that must have been measured
    sides: tuple[str, str] | None = None
    widened: tuple[str, str] | None = None


INEQUALITIES = (
    Inequality(
        "theorem-4.1/i/clean",
        "Theorem 4.1 (i): ECE <= (K - 1) Q",
        "failed",
        sides=("certified_ece", "bound_ece"),
    ),
    Inequality("theorem-4.1/i/robust", "Theorem 4.1 (i) with robust margins: ECE <= (K - 1) Q0", "robust_failed"),
    Inequality(
        "theorem-4.1/ii/clean",
        "Theorem 4.1 (ii): sharpness <= 2 C_J^2 (K - 1) Q",
        "failed",
        sides=("certified_sharpness", "bound_sharpness"),
    ),
    Inequality(
        "theorem-4.1/ii/robust",
        "Theorem 4.1 (ii) with robust margins: sharpness <= 2 C_J^2 (K - 1) Q0",
        "log_robust_moment",
        sides=("certified_sharpness", "bound_sharpness"),
        widened=("log_robust_moment", "log_margin_moment"),
    ),
    Inequality(
        "theorem-4.2/i",
        "Theorem 4.2 (i): Q / K <= ECE <= (K - 1) exp(-gamma)",
        "failed",
        interpolating=True,
    ),
    Inequality(
        "theorem-4.2/ii-iii",
        "Theorem 4.2 (ii), (iii): sharpness <= 2 C_J^2 K (K - 1) ECE",
        "failed",
        interpolating=True,
    ),
    Inequality(
        "theorem-4.2/iv",
        "Theorem 4.2 (iv): Q- / K <= ECE",
        "robust_failed",
        interpolating=True,
        needs="log_robust_moment_minus",
    ),
    Inequality(
        "theorem-4.2/v",
        "Theorem 4.2 (v): ECE = mean (1 - p_y), whatever the bins",
        "failed",
        interpolating=True,
    ),
    Inequality("lemma/b.1-to-b.4", "Lemmas B.1 to B.4, sample by sample", "failed"),
    Inequality(
        "lemma/b.5",
        "Lemma B.5: exp(-eps L) exp(-m_eps) <= exp(-m) <= exp(-m_eps)",
        "robust_failed",
        needs="margin_lipschitz",
    ),
    Inequality(
        "remark-b.6",
        "Remark B.6: sharpness <= 2 C_J^2 (K - 1) mean exp(-predicted margin)",
        "failed",
        sides=("certified_sharpness", "bound_sharpness_free"),
    ),
    Inequality(
        "proposition-b.7",
        "Proposition B.7: no shift found has a larger moment than Q0",
        "robust_failed",
        needs="log_robust_moment_proved",
    ),
    Inequality("ours/ece", "ours: ECE <= mean (1 - p_y)", "failed", sides=("certified_ece", "bound_ece_ours")),
    Inequality(
        "ours/sharpness",
        "ours: sharpness <= mean sharpness of one sample",
        "failed",
        sides=("certified_sharpness", "bound_sharpness_ours"),
    ),
)


def bound_claims(runs: Sequence[Trajectory]) -> Iterator[Claim]:
    """One claim per inequality: that it fails in none of the evaluations, at an observed step of one set each.

    The estimate is the share of failures in the n evaluations that show whether the inequality was met.
    """
    observations = [run.at(place) for run in runs for place in range(len(run))]
    for inequality in INEQUALITIES:
        kinds = Counter(
            _evaluate(inequality, observation, split)
            for observation in observations
            for split in ("train", "test")
            if _measured(observation, f"{split}/{inequality.counter}")
        )
        judged = kinds["met"] + kinds["fails"]
        text = f"{kinds['fails']} failures in {judged + kinds['unclear']} evaluations"
        if kinds["not applicable"]:
            text += f"; its assumption is not met in {kinds['not applicable']} others"
        if kinds["unclear"]:
            text += f"; in {kinds['unclear']} something failed, and the rows do not say what"
        yield Claim(
            id=f"no-failure/{inequality.name}",
            statement=f"no failure: {inequality.statement}",
            verdict=Verdict.of(not kinds["fails"], decided=bool(kinds["fails"] or (judged and not kinds["unclear"]))),
            estimate=kinds["fails"] / judged if judged else None,
            n=(judged,) if judged else (),
            unit="evaluations",
            measured=text if kinds else "",
        )


def _measured(observation: Mapping[str, float], key: str) -> bool:
    return math.isfinite(observation.get(key, math.nan))


def _evaluate(inequality: Inequality, observation: Mapping[str, float], split: str) -> Evaluation:
    """Whether an inequality was met at one observed step, on one set."""
    if inequality.interpolating and not observation.get(f"{split}/interpolating", math.nan) > 0:
        return "not applicable"
    if inequality.needs and not _measured(observation, f"{split}/{inequality.needs}"):
        return "not applicable"
    if not inequality.widened and observation[f"{split}/{inequality.counter}"] == 0:
        return "met"
    keys = [f"{split}/{side}" for side in (*(inequality.sides or ()), *(inequality.widened or ()))]
    if not inequality.sides or not all(_measured(observation, key) for key in keys):
        return "not applicable" if inequality.widened else "unclear"
    measured, bound, wide, narrow = (*(observation[key] for key in keys), 0.0, 0.0)[:4]
    narrower = measured * math.exp(min(narrow - wide, _LARGEST))
    return "met" if narrower <= bound * (1 + _ROUNDING) else "fails"
