"""What the paper says of flat minima and flat directions, judged by runs."""

import math
from collections.abc import Iterator, Sequence
from functools import partial

from surefoot.studies.correlation import Trajectory, t_interval
from surefoot.studies.difference import BASELINE, Difference, difference
from surefoot.studies.paired import UNSURE, both
from surefoot.table import Cell, Estimate, Table
from surefoot_papers.too_sharp.interventions.profile import (
    SMALL,
    decay,
    last,
    mean_along,
    mean_ece,
    peak_ece,
    peak_sharpness,
    rises,
)

HYPOTHESES = {
    "1, flat minima": ("sam",),
    "2, directional flatness": ("muon", "bulk_sgd"),
}
NOTHING = 0.01  # a difference that is none: in ECE, and in the share of observations between which the loss rises
ALIKE = math.log(1.05)  # and in the logarithm of a sharpness or a loss
FEWEST_PAIRS = 2  # below which how soon ECE falls is not judged
DOWN = 0.5  # of its first value: below, the training loss has come down

Claim = tuple[Cell, ...]


def intervention_claims(runs: Sequence[Trajectory], variants: Sequence[str]) -> Table:
    """All claims of the study."""
    rows = [*_hypotheses(runs, variants)]
    flat = next((name for name in variants if name.split()[0] == "sam"), None)
    for variant in [name for name in variants if name.split()[0] in HYPOTHESES["2, directional flatness"]]:
        rows += [*_on_its_way(runs, variant), *(_against(runs, variant, flat) if flat else ())]
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
            "Fewer steps: in all pairs with one seed (and one learning rate, where both have it) in which one of the "
            "two gets there; it does not hold where in none. A hypothesis holds where all its optimizers do.",
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
            yield f"hypothesis {hypothesis}, all its optimizers together", "-", both(*verdicts)


def _on_its_way(runs: Sequence[Trajectory], variant: str) -> Iterator[Claim]:
    """The two halves of a lower training ECE that the paper names: the peak, and how soon it is over."""
    peak = difference(runs, variant, peak_ece)
    yield f"{variant} has a lower peak of training ECE than {BASELINE}", _shown(peak), lower(peak)
    sooner, known = _sooner(runs, variant)
    said = UNSURE if known < FEWEST_PAIRS or 0 < sooner < known else _said(sooner == known)
    yield (
        f"the training ECE of {variant} falls from its peak to below {SMALL} in fewer steps than {BASELINE}'s",
        f"in {sooner} of {known} pairs of runs" if known else "neither does",
        said,
    )


def _sooner(runs: Sequence[Trajectory], variant: str) -> tuple[int, int]:
    """In how many pairs the variant is calibrated sooner after its peak, of those in which one of the two ever is.

    Pairs have learning rate and seed in common; where the learning rates differ, the seed.
    """
    own, plain = ([run for run in runs if run.spec.variant == name] for name in (variant, BASELINE))
    alike = {run.lr for run in own} <= {run.lr for run in plain}
    pairs = [
        (decay(one), decay(other))
        for one in own
        for other in plain
        if one.spec.seed == other.spec.seed and (one.lr == other.lr or not alike)
    ]
    known = [(a, b) for a, b in pairs if a is not None or b is not None]
    return sum(a is not None and (b is None or a < b) for a, b in known), len(known)


def _against(runs: Sequence[Trajectory], variant: str, flat: str) -> Iterator[Claim]:
    peak, mean = (difference(runs, variant, of, baseline=flat) for of in (peak_ece, mean_ece))
    yield (
        f"{variant} has a lower training ECE than {flat}, at its peak and in the mean",
        f"peak: {_shown(peak)}; mean: {_shown(mean)}",
        lower(peak, mean),
    )


def _alike(runs: Sequence[Trajectory], variant: str) -> Claim:
    """Whether ECE is that of the baseline at each learning rate: what cancels between them is no likeness."""
    rates = sorted({run.lr for run in runs if run.spec.variant == variant})
    gaps = [
        difference([run for run in runs if run.lr == rate], variant, of)
        for rate in rates
        for of in (peak_ece, mean_ece)
    ]
    known = [gap for gap in gaps if gap is not None]
    said = UNSURE
    if any(gap.low > NOTHING or gap.high < -NOTHING for gap in known):
        said = "does not hold"
    elif len(known) == len(gaps) and all(gap.low > -NOTHING and gap.high < NOTHING for gap in known):
        said = "holds"
    told = [f"{rate:.4g}: peak {_shown(gaps[2 * k])}, mean {_shown(gaps[2 * k + 1])}" for k, rate in enumerate(rates)]
    statement = f"{variant} has the training ECE of {BASELINE} within {NOTHING}, peak and mean, at every learning rate"
    return statement, "; ".join(told), said


def _sam(runs: Sequence[Trajectory], variant: str) -> Iterator[Claim]:
    yield _alike(runs, variant)
    peak = difference(runs, variant, peak_sharpness, logs=True)
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
    peak = difference(runs, variant, peak_sharpness, logs=True)
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


def _said(holds: bool) -> str:
    return "holds" if holds else "does not hold"


def _shown(gap: Difference | None) -> str:
    return "-" if gap is None else str(gap)


def _times(gap: Difference | None) -> str:
    return "-" if gap is None else gap.times
