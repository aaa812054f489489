"""Which bounds held at the observed steps of runs, a family at a time."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from surefoot.runs.trajectory import Row
from surefoot.studies.correlation import Trajectory
from surefoot.table import Cell

_LARGEST = 700.0  # exponent that a float can hold; narrow - wide is at most 0 where the two are right
_ROUNDING = 1e-6  # relative, of numbers that rows hold


@dataclass(frozen=True)
class Family:
    """Inequalities that are claimed together, and how the rows of runs tell whether they held.

    `counter` is the quantity that counts failures, of this family and others. Where it is not 0, `sides` (what is
    bounded, and the bound) tell whether it was this one; without them that is not known. Where nothing counted them,
    `counter` is a quantity of the rows that can tell, and `sides` decide, the bound `widened` by exp(first - second).
    """

    says: str
    counter: Literal["failed", "robust_failed", "log_robust_moment"]
    interpolating: bool = False  # claims something only where every sample is right
    needs: str = ""  # a quantity that has to be known
    sides: tuple[str, str] | None = None
    widened: tuple[str, str] | None = None


FAMILIES = (
    Family("Theorem 4.1 (i): ECE <= (K - 1) Q", "failed", sides=("certified_ece", "bound_ece")),
    Family("Theorem 4.1 (i) with robust margins: ECE <= (K - 1) Q0", "robust_failed"),
    Family(
        "Theorem 4.1 (ii): sharpness <= 2 C_J^2 (K - 1) Q", "failed", sides=("certified_sharpness", "bound_sharpness")
    ),
    Family(
        "Theorem 4.1 (ii) with robust margins: sharpness <= 2 C_J^2 (K - 1) Q0",
        "log_robust_moment",
        sides=("certified_sharpness", "bound_sharpness"),
        widened=("log_robust_moment", "log_margin_moment"),
    ),
    Family("Theorem 4.2 (i): Q / K <= ECE <= (K - 1) exp(-gamma)", "failed", interpolating=True),
    Family("Theorem 4.2 (ii), (iii): sharpness <= 2 C_J^2 K (K - 1) ECE", "failed", interpolating=True),
    Family("Theorem 4.2 (iv): Q- / K <= ECE", "robust_failed", interpolating=True, needs="log_robust_moment_minus"),
    Family("Theorem 4.2 (v): ECE = mean (1 - p_y), whatever the bins", "failed", interpolating=True),
    Family("Lemmas B.1 to B.4, sample by sample", "failed"),
    Family("Lemma B.5: exp(-eps L) exp(-m_eps) <= exp(-m) <= exp(-m_eps)", "robust_failed", needs="margin_lipschitz"),
    Family(
        "Remark B.6: sharpness <= 2 C_J^2 (K - 1) mean exp(-predicted margin)",
        "failed",
        sides=("certified_sharpness", "bound_sharpness_free"),
    ),
    Family(
        "Proposition B.7: no shift found has a larger moment than Q0",
        "robust_failed",
        needs="log_robust_moment_proved",
    ),
    Family("ours: ECE <= mean (1 - p_y)", "failed", sides=("certified_ece", "bound_ece_ours")),
    Family(
        "ours: sharpness <= mean sharpness of one sample",
        "failed",
        sides=("certified_sharpness", "bound_sharpness_ours"),
    ),
)


def bound_claims(runs: Sequence[Trajectory]) -> Iterator[tuple[Cell, ...]]:
    """One claim per family: statement, failures among the evaluations that could be judged, verdict."""
    for family in FAMILIES:
        found = [
            _evaluated(family, row, split)
            for run in runs
            for row in run.rows
            for split in ("train", "test")
            if row.get(f"{split}/{family.counter}") is not None
        ]
        unmet, failed, untold = (found.count(kind) for kind in ("unmet", "fails", "untold"))
        judged = len(found) - unmet
        told = f"{failed} failures in {judged} evaluations"
        told += f"; its assumption is not met in {unmet} others" if unmet else ""
        told += f"; in {untold} something failed, and the rows do not say what" if untold else ""
        known = bool(judged) and not untold
        verdict = "does not hold" if failed else "holds" if known else "cannot tell at this scale"
        yield f"no failure: {family.says}", told if found else "-", verdict


def _evaluated(family: Family, row: Row, split: str) -> Literal["holds", "fails", "untold", "unmet"]:
    if family.interpolating and not row.get(f"{split}/interpolating"):
        return "unmet"
    if family.needs and row.get(f"{split}/{family.needs}") is None:
        return "unmet"
    if not family.widened and not row[f"{split}/{family.counter}"]:
        return "holds"
    measured, bound = (row.get(f"{split}/{side}") for side in family.sides or ("", ""))
    wide, narrow = (row.get(f"{split}/{side}") for side in family.widened) if family.widened else (0.0, 0.0)
    if measured is None or bound is None or wide is None or narrow is None:
        return "unmet" if family.widened else "untold"
    narrower = measured * math.exp(min(narrow - wide, _LARGEST))
    return "holds" if narrower <= bound * (1 + _ROUNDING) else "fails"
