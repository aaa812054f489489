"""How differences from another optimizer are judged, and put into claims."""

import math

from surefoot.studies.claim import Claim, Verdict
from surefoot.studies.difference import Difference

NOTHING = 0.01  # a difference that is none: in ECE, and in the share of observations between which the loss rises
ALIKE = math.log(1.05)  # and in the logarithm of a sharpness or a loss


def lower(*gaps: Difference | None, nothing: float = NOTHING) -> Verdict:
    """The verdict on the claim that all of them are below 0; within `nothing` of 0 they are no difference."""
    measured = [gap for gap in gaps if gap is not None]
    if len(measured) < len(gaps):
        return Verdict.INCONCLUSIVE
    if all(gap.high < 0 for gap in measured):
        return Verdict.REPRODUCED
    none = all(gap.low > -nothing and gap.high < nothing for gap in measured)
    return Verdict.NOT_SEEN if none or any(gap.low > 0 for gap in measured) else Verdict.INCONCLUSIVE


def higher(*gaps: Difference | None, nothing: float = NOTHING) -> Verdict:
    """The same, that they are above 0."""
    return lower(*(None if gap is None else -gap for gap in gaps), nothing=nothing)


def not_lower(gap: Difference | None) -> Verdict:
    """The verdict on the claim that a ratio, by its logarithm, is not below 1."""
    if gap is None or (gap.low <= -ALIKE and gap.high >= 0):
        return Verdict.INCONCLUSIVE
    return Verdict.of(gap.low > -ALIKE)


def alike(*gaps: Difference | None) -> Verdict:
    """The verdict on the claim that all of them are within 0.01 of 0."""
    measured = [gap for gap in gaps if gap is not None]
    if any(gap.low > NOTHING or gap.high < -NOTHING for gap in measured):
        return Verdict.NOT_SEEN
    within = all(gap.low > -NOTHING and gap.high < NOTHING for gap in measured)
    return Verdict.of(True, decided=within and len(measured) == len(gaps))


def gap_claim(
    id: str, statement: str, gap: Difference | None, *, verdict: Verdict, measured: str | None = None
) -> Claim:
    """A claim about a difference; `measured` where it rests on more than that one."""
    text = measured if measured is not None else "" if gap is None else str(gap)
    if gap is None:
        return Claim(id, statement, verdict, measured=text)
    return Claim(id, statement, verdict, gap.mean, gap.low, gap.high, gap.n, measured=text)


def ratio_claim(
    id: str, statement: str, gap: Difference | None, *, verdict: Verdict, measured: str | None = None
) -> Claim:
    """The same about a ratio, by its logarithm."""
    text = measured if measured is not None else "" if gap is None else gap.times
    if gap is None:
        return Claim(id, statement, verdict, measured=text)
    ratio, least, most = map(math.exp, (gap.mean, gap.low, gap.high))
    return Claim(id, statement, verdict, ratio, least, most, gap.n, measured=text)


def shown(gap: Difference | None) -> str:
    """A difference as a part of what was measured."""
    return "-" if gap is None else str(gap)


def times(gap: Difference | None) -> str:
    """A ratio as a part of what was measured."""
    return "-" if gap is None else gap.times
