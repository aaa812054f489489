"""What the theory and its review ask of the certificates, judged by runs."""

import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Literal

import numpy as np

from surefoot.runs.trajectory import Trajectory
from surefoot.studies.claim import Claim, Verdict
from surefoot.studies.correlation import pearson
from surefoot.table import Estimate
from surefoot_papers.too_sharp.certificates._bounds import bound_claims
from surefoot_papers.too_sharp.certificates._carriers import PHASES, in_phase, leader, shares
from surefoot_papers.too_sharp.certificates._constants import growth, initial_constants, spread
from surefoot_papers.too_sharp.certificates._proxies import agreements

FEWEST_RUNS = 2  # below which a claim about runs is not judged
COUPLED = 0.5  # the r from which on we call two quantities coupled
ORDERED = 0.9  # and the rank r from which on one may stand for the other
GROWTH = 2.0  # a constant that grows by more than this factor is not bounded
MOST = 0.5  # of Q: a tenth of the samples with more than this dominates it
CONFIDENT = 0.1  # confidence that exceeds accuracy by more than this is confidently wrong
WORSE = 0.01  # more than this a calibration error has worsened
MUCH = 10.0  # times tighter, in the median over a run's evaluations
SPACINGS = {"all": "all observed steps", "equal": "equally spaced steps"}

TITLE = "What the theory and its review ask, and what these runs say"
NOTES = (
    "An evaluation: a bound at one observed step, on the training or the test set. Where the assumption is not "
    "met a bound claims nothing.",
    f"Bounded and independent: within a factor {GROWTH:g}. Leading: the largest share of the variance of log "
    f"sharpness. Most of Q: more than {MOST:.0%}. Confidently wrong: confidence exceeds accuracy by more than "
    f"{CONFIDENT:g}. All of these are our choice.",
    "B.6 can never be looser than Theorem 4.1, and a decile by a margin that knows the label holds the errors "
    "if there are any: what is measured there is by how much, and whether anything else is worse.",
)


def certificate_claims(runs: Sequence[Trajectory], along: Sequence[Trajectory]) -> tuple[Claim, ...]:
    """All claims of the study; `along` are the runs with one shape of network."""
    return (
        *bound_claims(runs),
        _bounded(runs),
        _independent(runs, "depth"),
        _independent(runs, "width"),
        *_margin_tail_leads(along),
        *_jacobian_leads(along),
        *_coupled_elsewhere(along),
        *_worst_tenth(along),
        *_least_robust(along),
        _label_free(along),
        _predicted_margins(along),
        _cheap_estimates(along),
    )


def _counted(
    id: str, statement: str, cases: Sequence[bool], measured: str, *, unit: str = "runs", fewest: int = FEWEST_RUNS
) -> Claim:
    """The claim that something is so in every case; the estimate is the share of cases in which it is."""
    return Claim(
        id=id,
        statement=statement,
        verdict=Verdict.of(all(cases), decided=len(cases) >= fewest),
        estimate=sum(cases) / len(cases) if cases else None,
        n=(len(cases),) if cases else (),
        unit=unit,
        measured=measured if cases else "",
    )


def _bounded(runs: Sequence[Trajectory]) -> Claim:
    factors = [factor for run in runs if (factor := growth(run)) is not None]
    largest = max(factors, default=math.nan)
    return Claim(
        id="c-j-bounded",
        statement="C_J stays bounded along training",
        verdict=Verdict.of(largest <= GROWTH, decided=bool(factors)),
        estimate=largest if factors else None,
        n=(len(factors),) if factors else (),
        unit="runs",
        measured=f"C_J grows up to {largest:.3g}-fold, median {median(factors):.3g} (n={len(factors)})"
        if factors
        else "",
    )


def _independent(runs: Sequence[Trajectory], what: Literal["depth", "width"]) -> Claim:
    ratio = spread(runs, what)
    return Claim(
        id=f"c-j-independent/{what}",
        statement=f"C_J does not depend on {what} (beyond a factor {GROWTH:g})",
        verdict=Verdict.of(ratio is not None and ratio <= GROWTH, decided=ratio is not None),
        estimate=ratio,
        n=(len(initial_constants(runs)),) if ratio is not None else (),
        unit="networks",
        measured="" if ratio is None else f"up to {ratio:.3g}-fold at initialisation between networks of other {what}",
    )


def _margin_tail_leads(along: Sequence[Trajectory]) -> Iterator[Claim]:
    for phase in PHASES:
        for spacing, name in SPACINGS.items():
            parts = [in_phase(run, phase, spacing) for run in along]
            own = [divided["Q"] for part in parts if (divided := shares(part)) is not None]
            leads = [term == "Q" for part in parts if (term := leader(part)) is not None]
            yield _counted(
                f"leading-term/margin-tail/{phase.replace(' ', '-')}/{spacing}",
                f"the margin tail Q is the leading term of sharpness: {phase}, {name}",
                leads,
                f"in {sum(leads)} of {len(leads)} runs; its share {Estimate.of(own)}",
            )


def _jacobian_leads(along: Sequence[Trajectory]) -> Iterator[Claim]:
    for spacing, name in SPACINGS.items():
        terms = [leader(in_phase(run, "before", spacing)) for run in along]
        leads = [term == "C_J^2" for term in terms if term is not None]
        yield _counted(
            f"leading-term/jacobian/before/{spacing}",
            f"the Jacobians' norm C_J^2 is the leading term of sharpness: before, {name}",
            leads,
            f"in {sum(leads)} of {len(leads)} runs",
        )


def _coupled_elsewhere(along: Sequence[Trajectory]) -> Iterator[Claim]:
    for spacing, name in SPACINGS.items():
        parts = [in_phase(run, phase, spacing) for run in along for phase in PHASES]
        each = [pearson(part, "train/ece", "train/certified_sharpness") for part in parts if leader(part) != "Q"]
        values = [r for r in each if r is not None]
        coupled = [r >= COUPLED for r in values]
        yield _counted(
            f"coupled-without-margin-tail/{spacing}",
            f"ECE and sharpness stay coupled (r >= {COUPLED}) where Q is not the leading term, {name}",
            coupled,
            f"in {sum(coupled)} of {len(coupled)} phases; r {Estimate.of(values)}",
            unit="phases",
        )


def _worst_tenth(along: Sequence[Trajectory]) -> Iterator[Claim]:
    for split in ("train", "test"):
        ends = [run.last(f"{split}/tail_share_10") for run in along]
        most = [share > MOST for share in ends if math.isfinite(share)]
        yield _counted(
            f"worst-tenth-of-margins/{split}",
            f"the worst tenth of the margins carries most of Q after the last step: {split} set",
            most,
            f"in {sum(most)} of {len(most)} runs; its share {Estimate.of_measured(ends)}",
        )


def _least_robust(along: Sequence[Trajectory]) -> Iterator[Claim]:
    for split in ("train", "test"):
        ends = [[run.last(f"{split}/ece_decile_{number:02d}") for number in range(1, 11)] for run in along]
        gaps = [deciles for deciles in ends if np.isfinite(deciles).all()]
        first = [first > max(others) for first, *others in gaps]
        yield _counted(
            f"least-robust-tenth/{split}",
            f"the least robust tenth of the samples is the most miscalibrated after the last step: {split} set",
            first,
            f"in {sum(first)} of {len(first)} runs; its |confidence - accuracy| "
            f"{Estimate.of(deciles[0] for deciles in gaps)}, "
            f"the largest of the other tenths {Estimate.of(max(deciles[1:]) for deciles in gaps)}",
        )


def _label_free(along: Sequence[Trajectory]) -> Claim:
    factors = [_tighter(run) for run in along]
    wrong = [median(there) for there, _ in factors if there]
    elsewhere = [median(others) for _, others in factors if others]
    much = [factor >= MUCH for factor in wrong]
    text = f"in {sum(much)} of {len(much)} runs"
    text += f"; {min(wrong):.3g} to {max(wrong):.3g} times there" if wrong else ""
    text += f", {min(elsewhere):.3g} to {max(elsewhere):.3g} elsewhere" if elsewhere else ""
    return _counted(
        "label-free-bound-tighter",
        f"the label-free bound B.6 is at least {MUCH:g} times tighter than 4.1's where the model is confidently wrong",
        much,
        text,
    )


def _tighter(run: Trajectory) -> tuple[list[float], list[float]]:
    """4.1's bound over B.6's at the evaluations where the model is confidently wrong, and at the others."""
    wrong: list[float] = []
    elsewhere: list[float] = []
    for split in ("train", "test"):
        keys = ("confidence", "accuracy", "bound_sharpness", "bound_sharpness_free")
        confidence, accuracy, bound, free = run.measured(*(f"{split}/{key}" for key in keys))
        confident = confidence - accuracy > CONFIDENT
        wrong += (bound[confident & (free > 0)] / free[confident & (free > 0)]).tolist()
        elsewhere += (bound[~confident & (free > 0)] / free[~confident & (free > 0)]).tolist()
    return wrong, elsewhere


def _predicted_margins(along: Sequence[Trajectory]) -> Claim:
    changes = [change for run in along if (change := _change_while_ece_worsens(run)) is not None]
    grow = [change < 0 for change in changes]
    return _counted(
        "predicted-margins-grow",
        f"predicted margins of the test set grow where its ECE worsens by more than {WORSE:g} after its lowest NLL",
        grow,
        f"in {sum(grow)} of {len(grow)} runs; log mean exp(-predicted margin) changes by {Estimate.of(changes)}",
    )


def _change_while_ece_worsens(run: Trajectory) -> float | None:
    """How log mean exp(-predicted margin) changes from the lowest test NLL on, if test ECE worsens in between."""
    both = run.part(np.isfinite(run["test/nll"]) & np.isfinite(run["test/ece"]))
    if not len(both):
        return None
    best = int(np.argmin(both["test/nll"]))  # not of ECE, which is low before training too
    change = _log_free_moment(both, -1) - _log_free_moment(both, best)
    worse = both["test/ece"][-1] - both["test/ece"][best] > WORSE
    return change if worse and math.isfinite(change) else None


def _log_free_moment(run: Trajectory, place: int) -> float:
    """The log of mean exp(-predicted margin) on the test set, up to a constant, from the bound that it is part of."""
    bound, norm = (float(run[key][place]) for key in ("test/bound_sharpness_free", "test/c_j"))
    return math.log(bound / norm**2) if bound > 0 and norm > 0 else math.nan


def _cheap_estimates(along: Sequence[Trajectory]) -> Claim:
    values = [each.rank_r for each in agreements(along) if each.rank_r is not None]
    ordered = [r >= ORDERED for r in values]
    return _counted(
        "cheap-estimates-keep-order",
        f"the cheap estimates keep the order along training (rank r >= {ORDERED})",
        ordered,
        f"in {sum(ordered)} of {len(ordered)} cases, the least {min(values):.2f}" if values else "",
        unit="cases",
        fewest=1,
    )
