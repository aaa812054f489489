"""What the theory and its review ask of the certificates, judged by runs."""

import math
from collections.abc import Iterator, Sequence
from statistics import median

from surefoot.runs.trajectory import Row
from surefoot.studies.correlation import Trajectory, pearson
from surefoot.table import Cell, Estimate, Table
from surefoot_papers.too_sharp.certificates._bounds import bound_claims
from surefoot_papers.too_sharp.certificates._carriers import PHASES, evenly, leader, phases, shares
from surefoot_papers.too_sharp.certificates._constants import growth, spread
from surefoot_papers.too_sharp.certificates._proxies import rank_correlations

FEWEST_RUNS = 2  # below which a claim about runs is not judged
COUPLED = 0.5  # the r from which on we call two quantities coupled
ORDERED = 0.9  # and the rank r from which on one may stand for the other
GROWTH = 2.0  # a constant that grows by more than this factor is not bounded
MOST = 0.5  # of Q: a tenth of the samples with more than this dominates it
SURE = 0.1  # confidence that exceeds accuracy by more than this is confidently wrong
WORSE = 0.01  # more than this a calibration error has worsened
MUCH = 10.0  # times tighter, in the median over a run's evaluations
SPACINGS = {"all": "all observed steps", "equal": "equally spaced steps"}

Claim = tuple[Cell, ...]


def certificate_claims(runs: Sequence[Trajectory], along: Sequence[Trajectory]) -> Table:
    """All claims of the study; `along` are the runs with one shape of network."""
    rows = [
        *bound_claims(runs),
        *_constants(runs),
        *_leading(along),
        *_jacobian(along),
        *_elsewhere(along),
        *_tail(along),
        *_least_robust(along),
        _label_free(along),
        _surer(along),
        _cheap(along),
    ]
    return Table(
        name="claims",
        title="What the theory and its review ask, and what these runs say",
        columns=("claim", "measured", "verdict"),
        rows=tuple(rows),
        notes=(
            "An evaluation: a bound at one observed step, on the training or the test set. Where the assumption is not "
            "met a bound claims nothing.",
            f"Bounded and independent: within a factor {GROWTH:g}. Leading: the largest share of the variance of log "
            f"sharpness. Most of Q: more than {MOST:.0%}. Confidently wrong: confidence exceeds accuracy by more than "
            f"{SURE:g}. All of these are our choice.",
            "B.6 can never be looser than Theorem 4.1, and a decile by a margin that knows the label holds the errors "
            "if there are any: what is measured there is by how much, and whether anything else is worse.",
        ),
    )


def _constants(runs: Sequence[Trajectory]) -> Iterator[Claim]:
    grown = [factor for run in runs if (factor := growth(run)) is not None]
    told = f"C_J grows up to {max(grown):.3g}-fold, median {median(grown):.3g} (n={len(grown)})" if grown else "-"
    yield "C_J stays bounded along training", told, _said(bool(grown) and max(grown) <= GROWTH, bool(grown))
    for what in ("depth", "width"):
        ratio = spread(runs, what)
        shown = "-" if ratio is None else f"up to {ratio:.3g}-fold at initialisation between networks of other {what}"
        holds = ratio is not None and ratio <= GROWTH
        yield f"C_J does not depend on {what} (beyond a factor {GROWTH:g})", shown, _said(holds, ratio is not None)


def _leading(along: Sequence[Trajectory]) -> Iterator[Claim]:
    for phase in PHASES:
        for spacing, told in SPACINGS.items():
            parts = [_part(run, phase, spacing) for run in along]
            found = [part["Q"] for rows in parts if (part := shares(rows)) is not None]
            leading = sum(leader(rows) == "Q" for rows in parts)
            yield (
                f"the margin tail Q is the leading term of sharpness: {phase}, {told}",
                f"in {leading} of {len(found)} runs; its share {Estimate.of(found)}" if found else "-",
                _said(leading == len(found), len(found) >= FEWEST_RUNS),
            )


def _jacobian(along: Sequence[Trajectory]) -> Iterator[Claim]:
    for spacing, told in SPACINGS.items():
        leaders = [name for run in along if (name := leader(_part(run, "before", spacing))) is not None]
        count = leaders.count("C_J^2")
        yield (
            f"the Jacobians' norm C_J^2 is the leading term of sharpness: before, {told}",
            f"in {count} of {len(leaders)} runs" if leaders else "-",
            _said(count == len(leaders), len(leaders) >= FEWEST_RUNS),
        )


def _elsewhere(along: Sequence[Trajectory]) -> Iterator[Claim]:
    for spacing, told in SPACINGS.items():
        others = [rows for run in along for phase in PHASES if leader(rows := _part(run, phase, spacing)) != "Q"]
        found = [r for rows in others if (r := pearson(rows, "train/ece", "train/certified_sharpness")) is not None]
        coupled = sum(r >= COUPLED for r in found)
        yield (
            f"ECE and sharpness stay coupled (r >= {COUPLED}) where Q is not the leading term, {told}",
            f"in {coupled} of {len(found)} phases; r {Estimate.of(found)}" if found else "-",
            _said(coupled == len(found), len(found) >= FEWEST_RUNS),
        )


def _tail(along: Sequence[Trajectory]) -> Iterator[Claim]:
    for split in ("train", "test"):
        found = [share for run in along if (share := run.rows[-1].get(f"{split}/tail_share_10")) is not None]
        count = sum(share > MOST for share in found)
        yield (
            f"the worst tenth of the margins carries most of Q after the last step: {split} set",
            f"in {count} of {len(found)} runs; its share {Estimate.of(found)}" if found else "-",
            _said(count == len(found), len(found) >= FEWEST_RUNS),
        )


def _least_robust(along: Sequence[Trajectory]) -> Iterator[Claim]:
    for split in ("train", "test"):
        keys = [f"{split}/ece_decile_{number:02d}" for number in range(1, 11)]
        ends = [[gap for key in keys if (gap := run.rows[-1].get(key)) is not None] for run in along]
        known = [gaps for gaps in ends if len(gaps) == len(keys)]
        count = sum(first > max(others) for first, *others in known)
        told = (
            f"in {count} of {len(known)} runs; its |confidence - accuracy| {Estimate.of(gaps[0] for gaps in known)}, "
        )
        told += f"the largest of the other tenths {Estimate.of(max(gaps[1:]) for gaps in known)}"
        yield (
            f"the least robust tenth of the samples is the most miscalibrated after the last step: {split} set",
            told if known else "-",
            _said(count == len(known), len(known) >= FEWEST_RUNS),
        )


def _label_free(along: Sequence[Trajectory]) -> Claim:
    wrong, elsewhere = [], []
    for run in along:
        found: dict[bool, list[float]] = {True: [], False: []}
        for row, split in ((row, split) for row in run.rows for split in ("train", "test")):
            keys = ("confidence", "accuracy", "bound_sharpness", "bound_sharpness_free")
            values = [value for key in keys if (value := row.get(f"{split}/{key}")) is not None]
            if len(values) == len(keys) and values[3] > 0:
                found[values[0] - values[1] > SURE].append(values[2] / values[3])
        wrong += [median(found[True])] if found[True] else []
        elsewhere += [median(found[False])] if found[False] else []
    count = sum(factor >= MUCH for factor in wrong)
    told = f"in {count} of {len(wrong)} runs; {min(wrong, default=0):.3g} to {max(wrong, default=0):.3g} times there"
    told += f", {min(elsewhere):.3g} to {max(elsewhere):.3g} elsewhere" if elsewhere else ""
    return (
        f"the label-free bound B.6 is at least {MUCH:g} times tighter than 4.1's where the model is confidently wrong",
        told if wrong else "-",
        _said(count == len(wrong), len(wrong) >= FEWEST_RUNS),
    )


def _surer(along: Sequence[Trajectory]) -> Claim:
    """Where test ECE worsens after the lowest test NLL: do predicted margins, by their exponential moment, grow?"""
    changes = []
    for run in along:
        known = [row for row in run.rows if all(row.get(key) is not None for key in ("test/nll", "test/ece"))]
        if known:
            best = min(known, key=lambda row: row["test/nll"] or 0.0)  # not of ECE, which is low before training too
            then, now = _log_free_moment(best), _log_free_moment(known[-1])
            worse = (known[-1]["test/ece"] or 0.0) - (best["test/ece"] or 0.0)
            changes += [now - then] if worse > WORSE and then is not None and now is not None else []
    count = sum(change < 0 for change in changes)
    told = f"in {count} of {len(changes)} runs; log mean exp(-predicted margin) changes by {Estimate.of(changes)}"
    return (
        f"predicted margins of the test set grow where its ECE worsens by more than {WORSE:g} after its lowest NLL",
        told if changes else "-",
        _said(count == len(changes), len(changes) >= FEWEST_RUNS),
    )


def _log_free_moment(row: Row) -> float | None:
    """The log of mean exp(-predicted margin) on the test set, up to a constant, from the bound that it is part of."""
    bound, norm = row.get("test/bound_sharpness_free"), row.get("test/c_j")
    return math.log(bound / norm**2) if bound and norm else None


def _cheap(along: Sequence[Trajectory]) -> Claim:
    ranks = rank_correlations(along)
    kept = sum(r >= ORDERED for r in ranks)
    return (
        f"the cheap estimates keep the order along training (rank r >= {ORDERED})",
        f"in {kept} of {len(ranks)} cases, the least {min(ranks):.2f}" if ranks else "-",
        _said(kept == len(ranks), bool(ranks)),
    )


def _part(run: Trajectory, phase: str, spacing: str) -> list[Row]:
    rows = phases(run)[phase]
    return evenly(run, rows) if spacing == "equal" else rows


def _said(holds: bool, known: bool) -> str:
    return "cannot tell at this scale" if not known else "holds" if holds else "does not hold"
