"""What the paper says of flat minima and flat directions, judged by runs."""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise

from surefoot.studies.baseline import BASELINE, Difference, difference
from surefoot.studies.correlation import Trajectory, t_interval
from surefoot.table import Cell, Estimate, Table

HYPOTHESES = {
    "1, flat minima": ("sam",),
    "2, directional flatness": ("muon", "bulk_sgd"),
}
SMALL = 0.02  # training ECE below this counts as calibrated, as in the paper's figure
NOTHING = 0.01  # a difference that is none: in ECE, and in the share of observations between which the loss rises
ALIKE = math.log(1.05)  # and in the logarithm of a sharpness or a loss
DOWN = 0.5  # of its first value: below, the training loss has come down
UNSURE = "cannot tell at this scale"

Claim = tuple[Cell, ...]


def peak_ece(run: Trajectory) -> float:
    """The largest training ECE along the run."""
    return run.peak("train/ece")["train/ece"] or 0.0


def mean_along(run: Trajectory, key: str) -> float:
    """The area under a quantity over steps (trapezoids between observations), divided by the number of steps."""
    points = [(row["step"] or 0, row[key] or 0) for row in run.rows]
    area = sum((b - a) * (x + y) / 2 for (a, x), (b, y) in pairwise(points))
    return area / max(points[-1][0] - points[0][0], 1)


def mean_ece(run: Trajectory) -> float:
    """The mean training ECE along the run."""
    return mean_along(run, "train/ece")


def steps_to_small(run: Trajectory) -> float | None:
    """The first observed step after the peak with training ECE below 0.02; None if there is none."""
    peak = run.peak("train/ece")["step"] or 0
    below = (row["step"] for row in run.rows if (row["step"] or 0) > peak and (row["train/ece"] or 0) < SMALL)
    return next(below, None)


def last(run: Trajectory, key: str) -> float:
    """A quantity after the last step."""
    return run.rows[-1][key] or 0.0


def rises(run: Trajectory) -> float:
    """The share of equally spaced observations at which training loss is higher than at the one before."""
    losses = [row["train/nll"] or 0.0 for row in run.chosen("equal", "whole")]
    return sum(after > before for before, after in pairwise(losses)) / max(len(losses) - 1, 1)


def intervention_claims(runs: Sequence[Trajectory], variants: Sequence[str]) -> Table:
    """All claims of the study."""
    rows = [*_hypotheses(runs, variants)]
    for family, claims in (("sam", _sam), ("muon", _muon), ("bulk_sgd", _bulk)):
        for variant in [name for name in variants if name.split()[0] == family]:
            rows += claims(runs, variant)
    return Table(
        name="claims",
        title="What the paper (Too Sharp, Too Sure) says, and what these runs say",
        columns=("claim", "measured", "verdict"),
        rows=tuple(rows),
        notes=(
            "The paper supports hypothesis 2 over 1. Here a claim that something is lower holds where all its "
            f"intervals lie below 0, does not hold where one lies above 0 or all lie within {NOTHING} of 0, and cannot "
            "be told otherwise; one that it is higher, the other way round. Sharpness and loss are compared by their "
            f"logarithms, with {math.expm1(ALIKE):.0%} in place of {NOTHING}.",
            f"In brackets 95 % intervals, over n pairs with {BASELINE} at one learning rate and seed, or n and n runs.",
            "Sharpness: GN, of the training set. As many steps: after the last one, where all runs have the same. Not "
            f"lower: the whole interval above {1 / math.exp(ALIKE):.2f} times. Oscillates: at a larger share of "
            "equally spaced observations training loss is higher than at the one before. All limits are our choice.",
        ),
    )


def _hypotheses(runs: Sequence[Trajectory], variants: Sequence[str]) -> Iterator[Claim]:
    for hypothesis, optimizers in HYPOTHESES.items():
        verdicts = []
        for variant in [name for name in variants if name.split()[0] in optimizers]:
            peak, mean = (difference(runs, variant, of) for of in (peak_ece, mean_ece))
            verdicts.append(lower(peak, mean))
            statement = f"{variant} lowers training ECE against {BASELINE} (hypothesis {hypothesis})"
            yield statement, f"peak train ECE: {_shown(peak)}; mean train ECE: {_shown(mean)}", verdicts[-1]
        if verdicts:
            together = verdicts[0] if len(set(verdicts)) == 1 else f"{UNSURE}: its optimizers disagree"
            yield f"hypothesis {hypothesis}, all its optimizers together", "-", together


def _sam(runs: Sequence[Trajectory], variant: str) -> Iterator[Claim]:
    peak = difference(runs, variant, _peak_sharpness, logs=True)
    final = difference(runs, variant, partial(last, key="train/ggn_sharpness"), logs=True)
    yield (
        f"{variant} keeps sharpness below {BASELINE}'s, at its peak and at the end",
        f"peak: {_times(peak)}; end: {_times(final)}",
        lower(peak, final, nothing=ALIKE),
    )
    ends = {last(run, "step") for run in runs if run.spec.variant in (variant, BASELINE)}
    loss = difference(runs, variant, partial(last, key="train/nll"), logs=True) if len(ends) == 1 else None
    statement = f"{variant} converges more slowly than {BASELINE}: a higher training loss after as many steps"
    yield statement, _times(loss), higher(loss, nothing=ALIKE)


def _muon(runs: Sequence[Trajectory], variant: str) -> Iterator[Claim]:
    error = difference(runs, variant, mean_ece)
    sharp = difference(runs, variant, partial(mean_along, key="train/ggn_sharpness"), logs=True)
    yield (
        f"{variant} has a lower mean training ECE than {BASELINE} at a mean sharpness that is not lower",
        f"ECE: {_shown(error)}; sharpness: {_times(sharp)}",
        both(lower(error), not_lower(sharp)),
    )
    margin = difference(runs, variant, partial(last, key="train/margin_mean"))
    yield f"{variant} ends with larger training margins than {BASELINE}", _shown(margin), higher(margin, nothing=0.0)
    ends = [last(run, "train/ece") for run in runs if run.spec.variant == variant]
    interval = t_interval(ends, limits=(0.0, 1.0))
    bracket = "" if interval is None else f" [{interval[0]:.4f}, {interval[1]:.4f}]"
    near = UNSURE if interval is None or interval[0] <= SMALL <= interval[1] else _said(interval[1] < SMALL)
    yield f"{variant} ends with a training ECE below {SMALL}", f"{Estimate.of(ends)}{bracket}", near
    test = difference(runs, variant, partial(last, key="test/ece"))
    yield f"{variant} ends with a higher test ECE than {BASELINE}", _shown(test), higher(test)


def _bulk(runs: Sequence[Trajectory], variant: str) -> Iterator[Claim]:
    own = [run for run in runs if run.spec.variant == variant]
    left = [last(run, "train/nll") / (run.rows[0]["train/nll"] or math.inf) for run in own]
    down = sum(share < DOWN for share in left)
    yield (
        f"{variant} brings the training loss below {DOWN:g} of its first value in every run",
        f"in {down} of {len(own)} runs; last over first {Estimate.of(left)}",
        _said(down == len(own)),
    )
    peak = difference(runs, variant, _peak_sharpness, logs=True)
    yield f"{variant} peaks at a higher sharpness than {BASELINE}", _times(peak), higher(peak, nothing=ALIKE)
    bounces = difference(runs, variant, rises)
    yield (
        f"{variant} oscillates: its training loss rises more often than {BASELINE}'s",
        _shown(bounces),
        higher(bounces),
    )


def lower(*differences: Difference | None, nothing: float = NOTHING) -> str:
    """The verdict on the claim that all of them are below 0; within `nothing` of 0 they are no difference."""
    known = [gap for gap in differences if gap is not None]
    if len(known) < len(differences):
        return UNSURE
    if all(gap.high < 0 for gap in known):
        return "holds"
    none = all(gap.low > -nothing and gap.high < nothing for gap in known)
    return "does not hold" if none or any(gap.low > 0 for gap in known) else UNSURE


def higher(*differences: Difference | None, nothing: float = NOTHING) -> str:
    """The same, that they are above 0."""
    return lower(*(None if gap is None else -gap for gap in differences), nothing=nothing)


def not_lower(gap: Difference | None) -> str:
    """The verdict on the claim that a ratio, by its logarithm, is not below 1."""
    if gap is None or (gap.low <= -ALIKE and gap.high >= 0):
        return UNSURE
    return _said(gap.low > -ALIKE)


def both(*verdicts: str) -> str:
    """The verdict on several claims at once."""
    if "does not hold" in verdicts:
        return "does not hold"
    return "holds" if set(verdicts) == {"holds"} else UNSURE


def _peak_sharpness(run: Trajectory) -> float:
    return run.peak("train/ggn_sharpness")["train/ggn_sharpness"] or 0.0


def _said(holds: bool) -> str:
    return "holds" if holds else "does not hold"


def _shown(gap: Difference | None) -> str:
    return "-" if gap is None else str(gap)


def _times(gap: Difference | None) -> str:
    return "-" if gap is None else gap.times
