"""What the paper says about flat minima and flat directions, judged by runs."""

import math
from collections.abc import Iterator, Sequence

from surefoot.runs.trajectory import Trajectory
from surefoot.studies.claim import Claim, Verdict, conjunction, counted_claim, slug
from surefoot.studies.difference import difference_from
from surefoot.studies.intervals import t_interval
from surefoot.studies.paired import last
from surefoot.table import Estimate
from surefoot_papers.too_sharp.interventions._judging import (
    ALIKE,
    NOTHING,
    alike,
    gap_claim,
    higher,
    lower,
    not_lower,
    ratio_claim,
    shown,
    times,
)
from surefoot_papers.too_sharp.interventions.profile import (
    SMALL,
    decay,
    loss_left,
    mean_ece,
    mean_sharpness,
    peak_ece,
    peak_sharpness,
    rises,
)

BASELINE = "gd"
HYPOTHESES = {
    "1, flat minima": ("sam",),
    "2, directional flatness": ("muon", "bulk_sgd"),
}
FEWEST_PAIRS = 2  # below which how soon ECE falls is not judged
DOWN = 0.5  # of its first value: below, the training loss has come down
NOTES = (
    "The paper supports hypothesis 2 over 1. Here a claim that something is lower is reproduced where all its "
    f"intervals lie below 0, not seen where one lies above 0 or all lie within {NOTHING} of 0, and inconclusive "
    "otherwise; one that it is higher, the other way round. Sharpness and loss are compared by their logarithms, with "
    f"{math.expm1(ALIKE):.0%} in place of {NOTHING}.",
    f"In brackets 95 % intervals, over n pairs with {BASELINE} at one learning rate and seed, or n and n runs.",
    "Sharpness: GN, of the training set. As many steps: after the last one, where all runs have the same. Not lower: "
    f"the whole interval above {1 / math.exp(ALIKE):.2f} times. Oscillates: at a larger share of equally spaced "
    "observations training loss is higher than at the one before. All limits are our choice.",
    "Fewer steps: in all pairs with one seed (and one learning rate, where both have it) in which one of the two gets "
    "there; not seen where in none. A hypothesis is reproduced where it is under all its optimizers.",
)


def intervention_claims(runs: Sequence[Trajectory], variants: Sequence[str]) -> Iterator[Claim]:
    """All claims of the study."""
    yield from _hypotheses(runs, variants)
    flat = next((name for name in variants if name.split()[0] == "sam"), None)
    for variant in [name for name in variants if name.split()[0] in HYPOTHESES["2, directional flatness"]]:
        yield _lower_peak(runs, variant)
        yield _sooner(runs, variant)
        if flat:
            yield _lower_than_sam(runs, variant, flat)
    for optimizer, claims in (("sam", _sam), ("muon", _muon), ("bulk_sgd", _bulk)):
        for variant in [name for name in variants if name.split()[0] == optimizer]:
            yield from claims(runs, variant)


def parts_of(variant: str) -> str:
    """An optimizer and its options as parts of a claim's id.

    >>> parts_of("bulk_sgd k=3 refresh_every=2")
    'bulk-sgd/k-3/refresh-every-2'
    """
    return "/".join(map(slug, variant.split()))


def _hypotheses(runs: Sequence[Trajectory], variants: Sequence[str]) -> Iterator[Claim]:
    for hypothesis, optimizers in HYPOTHESES.items():
        family = f"hypothesis/{hypothesis[0]}"
        verdicts = []
        for variant in [name for name in variants if name.split()[0] in optimizers]:
            peak, mean = (difference_from(runs, variant, value, baseline=BASELINE) for value in (peak_ece, mean_ece))
            verdicts.append(lower(peak, mean))
            yield gap_claim(
                f"{family}/{parts_of(variant)}",
                f"{variant} lowers training ECE against {BASELINE} (hypothesis {hypothesis})",
                peak,
                verdict=verdicts[-1],
                measured=f"peak train ECE: {shown(peak)}; mean train ECE: {shown(mean)}",
            )
        if verdicts:
            statement = f"hypothesis {hypothesis}, all its optimizers together"
            yield Claim(f"{family}/together", statement, conjunction(verdicts))


def _lower_peak(runs: Sequence[Trajectory], variant: str) -> Claim:
    peak = difference_from(runs, variant, peak_ece, baseline=BASELINE)
    statement = f"{variant} has a lower peak of training ECE than {BASELINE}"
    return gap_claim(f"lower-peak/{parts_of(variant)}", statement, peak, verdict=lower(peak))


def _sooner(runs: Sequence[Trajectory], variant: str) -> Claim:
    """Whether the variant is calibrated sooner after its peak, in the pairs in which one of the two ever is."""
    decays = [(own, other) for own, other in _pairs_of_decays(runs, variant) if own is not None or other is not None]
    sooner = sum(own is not None and (other is None or own < other) for own, other in decays)
    what = f"falls from its peak to below {SMALL} in fewer steps than {BASELINE}'s"
    return Claim(
        id=f"sooner/{parts_of(variant)}",
        statement=f"the training ECE of {variant} {what}",
        verdict=Verdict.of(sooner > 0, decided=len(decays) >= FEWEST_PAIRS and sooner in (0, len(decays))),
        estimate=sooner / len(decays) if decays else None,
        n=(len(decays),),
        unit="pairs",
        measured=f"in {sooner} of {len(decays)} pairs of runs" if decays else "neither does",
    )


def _pairs_of_decays(runs: Sequence[Trajectory], variant: str) -> list[tuple[int | None, int | None]]:
    """Of the variant and the baseline, in runs of one learning rate and seed; of one seed, where their rates differ."""
    own, plain = ([run for run in runs if run.spec.variant == name] for name in (variant, BASELINE))
    same_rates = {run.lr for run in own} <= {run.lr for run in plain}
    return [
        (decay(one), decay(other))
        for one in own
        for other in plain
        if one.spec.seed == other.spec.seed and (one.lr == other.lr or not same_rates)
    ]


def _lower_than_sam(runs: Sequence[Trajectory], variant: str, flat: str) -> Claim:
    peak, mean = (difference_from(runs, variant, value, baseline=flat) for value in (peak_ece, mean_ece))
    return gap_claim(
        f"lower-than-sam/{parts_of(variant)}",
        f"{variant} has a lower training ECE than {flat}, at its peak and in the mean",
        peak,
        verdict=lower(peak, mean),
        measured=f"peak: {shown(peak)}; mean: {shown(mean)}",
    )


def _sam(runs: Sequence[Trajectory], variant: str) -> Iterator[Claim]:
    yield _same_ece(runs, variant)
    peak, final = (
        difference_from(runs, variant, value, baseline=BASELINE, logs=True)
        for value in (peak_sharpness, last("train/ggn_sharpness"))
    )
    yield ratio_claim(
        f"flatter/{parts_of(variant)}",
        f"{variant} keeps sharpness below {BASELINE}'s, at its peak and at the end",
        peak,
        verdict=lower(peak, final, nothing=ALIKE),
        measured=f"peak: {times(peak)}; end: {times(final)}",
    )
    ends = {run.last("step") for run in runs if run.spec.variant in (variant, BASELINE)}
    same = len(ends) == 1  # after as many steps
    loss = difference_from(runs, variant, last("train/nll"), baseline=BASELINE, logs=True) if same else None
    statement = f"{variant} converges more slowly than {BASELINE}: a higher training loss after as many steps"
    yield ratio_claim(f"slower/{parts_of(variant)}", statement, loss, verdict=higher(loss, nothing=ALIKE))


def _same_ece(runs: Sequence[Trajectory], variant: str) -> Claim:
    """Whether ECE is that of the baseline at each learning rate: what cancels between them is no likeness."""
    rates = sorted({run.lr for run in runs if run.spec.variant == variant})
    gaps = []
    for rate in rates:
        here = [run for run in runs if run.lr == rate]
        gaps.append([difference_from(here, variant, value, baseline=BASELINE) for value in (peak_ece, mean_ece)])
    texts = [
        f"{rate:.4g}: peak {shown(peak)}, mean {shown(mean)}" for rate, (peak, mean) in zip(rates, gaps, strict=True)
    ]
    return gap_claim(
        f"same-ece/{parts_of(variant)}",
        f"{variant} has the training ECE of {BASELINE} within {NOTHING}, peak and mean, at every learning rate",
        gaps[0][0],
        verdict=alike(*(gap for pair in gaps for gap in pair)),
        measured="; ".join(texts),
    )


def _muon(runs: Sequence[Trajectory], variant: str) -> Iterator[Claim]:
    error = difference_from(runs, variant, mean_ece, baseline=BASELINE)
    sharpness = difference_from(runs, variant, mean_sharpness, baseline=BASELINE, logs=True)
    yield gap_claim(
        f"lower-ece-not-flatter/{parts_of(variant)}",
        f"{variant} has a lower mean training ECE than {BASELINE} at a mean sharpness that is not lower",
        error,
        verdict=conjunction([lower(error), not_lower(sharpness)]),
        measured=f"ECE: {shown(error)}; sharpness: {times(sharpness)}",
    )
    margin = difference_from(runs, variant, last("train/margin_mean"), baseline=BASELINE)
    statement = f"{variant} ends with larger training margins than {BASELINE}"
    yield gap_claim(f"ends/{parts_of(variant)}/margin", statement, margin, verdict=higher(margin, nothing=0.0))
    yield _ends_calibrated(runs, variant)
    test = difference_from(runs, variant, last("test/ece"), baseline=BASELINE)
    statement = f"{variant} ends with a higher test ECE than {BASELINE}"
    yield gap_claim(f"ends/{parts_of(variant)}/test-ece", statement, test, verdict=higher(test))


def _ends_calibrated(runs: Sequence[Trajectory], variant: str) -> Claim:
    ends = [run.last("train/ece") for run in runs if run.spec.variant == variant]
    values = [end for end in ends if math.isfinite(end)]
    interval = t_interval(values, limits=(0.0, 1.0))
    low, high = interval or (None, None)
    bracket = "" if interval is None else f" [{interval[0]:.4f}, {interval[1]:.4f}]"
    undecided = interval is None or interval[0] <= SMALL <= interval[1]
    return Claim(
        id=f"ends/{parts_of(variant)}/train-ece",
        statement=f"{variant} ends with a training ECE below {SMALL}",
        verdict=Verdict.of(interval is not None and interval[1] < SMALL, decided=not undecided),
        estimate=Estimate.of(values).mean,
        low=low,
        high=high,
        n=(len(values),),
        measured=f"{Estimate.of(values)}{bracket}",
    )


def _bulk(runs: Sequence[Trajectory], variant: str) -> Iterator[Claim]:
    shares = [loss_left(run) for run in runs if run.spec.variant == variant]
    left = [share for share in shares if math.isfinite(share)]
    down = [share < DOWN for share in left]
    yield counted_claim(
        f"loss-falls/{parts_of(variant)}",
        f"{variant} brings the training loss below {DOWN:g} of its first value in every run",
        down,
        measured=f"in {sum(down)} of {len(down)} runs; last over first {Estimate.of(left)}",
    )
    peak = difference_from(runs, variant, peak_sharpness, baseline=BASELINE, logs=True)
    statement = f"{variant} peaks at a higher sharpness than {BASELINE}"
    yield ratio_claim(f"sharper-peak/{parts_of(variant)}", statement, peak, verdict=higher(peak, nothing=ALIKE))
    bounces = difference_from(runs, variant, rises, baseline=BASELINE)
    statement = f"{variant} oscillates: its training loss rises more often than {BASELINE}'s"
    yield gap_claim(f"oscillates/{parts_of(variant)}", statement, bounces, verdict=higher(bounces))
