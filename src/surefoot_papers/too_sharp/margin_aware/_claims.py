"""What the margin-aware objective should do, judged by runs."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from surefoot.runs.selection import selected_place
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.claim import Claim, Verdict, slug
from surefoot.studies.intervals import t_interval
from surefoot.studies.paired import above_zero, below_zero, difference_claim, mean_with_interval
from surefoot_papers.too_sharp.margin_aware._tuned import (
    LONGER,
    OURS,
    PLAIN,
    Ends,
    gaps,
    mean_of,
    method_of,
    optimizers,
    tuned,
    usual,
)

MISCALIBRATED = 0.05  # debiased, of cross-entropy: below, there is nothing to cut
CUTS = {"muon": 3.4}  # reported for the paper, second-hand
CUT = 2.0  # for every other optimizer
POINT, SAME, KEPT = 0.01, 0.01, 0.03  # accuracy that may be lost, ECE that is the same, ECE that is kept
CORRUPTED = ("accuracy", "ece", "ece_temperature")  # scores on corrupted images

TITLE = "What the objective should do, and what these runs say"
NOTES = (
    "Differences are ours less the other, paired by optimizer and seed, with Student's 95 % interval; a claim is "
    "reproduced, or not seen, where the whole interval lies on one side. Cuts and what is kept go by means of seeds.",
)


def paired(
    runs: Sequence[Trajectory], method: str, *, stopped: bool, ours_stopped: bool = False
) -> list[tuple[Ends, Ends]]:
    """Ours after the usual budget, or stopped too, and another, under every optimizer that has both."""
    both = [
        (tuned(runs, o, OURS, stopped=ours_stopped), tuned(runs, o, method, stopped=stopped)) for o in optimizers(runs)
    ]
    return [(ours, other) for ours, other in both if ours is not None and other is not None]


def pooled(pairs: Sequence[tuple[Ends, Ends]], key: str, *, than: str | None = None) -> list[float]:
    """The differences in a quantity (from `than` of the other, if given), of all optimizers and seeds."""
    return [gap for one, other in pairs for gap in gaps(one, other, key, instead=than)]


def corrupted(runs: Sequence[Trajectory], method: str) -> dict[tuple[str, int], dict[str, float]]:
    """Accuracy, ECE and ECE after the temperature on corrupted images, their mean over corruptions, by run."""
    by_run = {}
    for run in runs:
        if method_of(run.spec) == method:
            ends = (_corrupted_scores(part) for part in (usual(run, runs), run))
            scores = next((scores for scores in ends if scores is not None), None)
            if scores is not None:
                by_run[run.optimizer, run.spec.seed] = scores
    return by_run


def _corrupted_scores(run: Trajectory) -> dict[str, float] | None:
    """The scores at the last observation; None where one was not measured there."""
    kinds = [key.removesuffix("/auroc_ood") for key in run.columns if key.endswith("/auroc_ood") and "-" in key]
    ends = {name: [run.last(f"{kind}/{name}") for kind in kinds] for name in CORRUPTED}
    means = {name: mean_of([value for value in values if math.isfinite(value)]) for name, values in ends.items()}
    return means if all(map(math.isfinite, means.values())) else None


def kept(run: Trajectory, runs: Sequence[Trajectory]) -> tuple[float, float, float]:
    """Test ECE at its best since the lowest validation NLL of the usual budget, after that budget, and at the end."""
    within = usual(run, runs)
    place = selected_place(within)
    since = within.steps[0 if place is None else place]
    errors = run["test/ece"][(run.steps >= since) & np.isfinite(run["test/ece"])]
    return min(errors.tolist(), default=math.nan), within.last("test/ece"), run.last("test/ece")


def lengthened(runs: Sequence[Trajectory], optimizer: str, method: str) -> list[Trajectory]:
    """The runs that go on after the usual budget."""
    own = [run for run in runs if (run.optimizer, method_of(run.spec)) == (optimizer, method)]
    return [run for run in own if len(usual(run, runs)) < len(run)]


def margin_claims(runs: Sequence[Trajectory]) -> tuple[Claim, ...]:
    """Every claim with what was measured and the verdict."""
    names = optimizers(runs)
    return (
        *(_below(runs, optimizer) for optimizer in names),
        *(_cut(runs, optimizer) for optimizer in names),
        *_against_cross_entropy(paired(runs, PLAIN, stopped=False)),
        *_against_early_stopping(paired(runs, PLAIN, stopped=True)),
        *(_keeps(runs, optimizer) for optimizer in names),
        *_corrupted(runs),
    )


def _below(runs: Sequence[Trajectory], optimizer: str) -> Claim:
    ours, plain = tuned(runs, optimizer, OURS), tuned(runs, optimizer, PLAIN)
    return difference_claim(
        f"ece-below-cross-entropy/{slug(optimizer)}",
        f"{optimizer}: ECE is below cross-entropy's",
        [] if ours is None or plain is None else gaps(ours, plain, "test/ece"),
        digits=4,
    )


def _cut(runs: Sequence[Trajectory], optimizer: str) -> Claim:
    least = CUTS.get(optimizer, CUT)
    id, statement = (
        f"ece-cut/{slug(optimizer)}",
        f"{optimizer}: ECE is at least {least:g} times lower than cross-entropy's",
    )
    ends = [tuned(runs, optimizer, method) for method in (OURS, PLAIN)]
    ours, plain = (mean_of(end.values("test/ece")) if end else math.nan for end in ends)
    debiased = mean_of(ends[1].values("test/debiased_rms_ce")) if ends[1] else math.nan
    if not all(map(math.isfinite, (ours, plain, debiased))) or ends[0] is None:
        return Claim(id, statement, Verdict.INCONCLUSIVE)
    n = len(ends[0].values("test/ece"))
    ratio = plain / ours if ours else math.inf
    text = f"{plain:.3f} / {ours:.3f} = {ratio:.1f} (n={n})"
    verdict = Verdict.of(plain >= least * ours)
    if debiased <= MISCALIBRATED:
        text += f"; cross-entropy's is {debiased:.3f} debiased: nothing to cut"
        verdict = Verdict.NOT_TESTED
    return Claim(id, statement, verdict, estimate=ratio if ours else None, n=(n,), measured=text)


def _against_cross_entropy(pairs: Sequence[tuple[Ends, Ends]]) -> Iterator[Claim]:
    yield difference_claim(
        "accuracy-close-to-cross-entropy",
        "accuracy is at most a point below cross-entropy's",
        pooled(pairs, "test/accuracy"),
        lower=False,
        limit=POINT,
        digits=4,
    )
    yield difference_claim(
        "nll-below-cross-entropy", "NLL is below cross-entropy's", pooled(pairs, "test/nll"), digits=4
    )


def _against_early_stopping(pairs: Sequence[tuple[Ends, Ends]]) -> Iterator[Claim]:
    yield difference_claim(
        "ece-close-to-early-stopping",
        f"ECE is at most {SAME} above that of cross-entropy stopped in time",
        pooled(pairs, "test/ece"),
        limit=SAME,
        digits=4,
    )
    nll, accuracy = (pooled(pairs, key) for key in ("test/nll", "test/accuracy"))
    verdicts = (below_zero(nll), above_zero(accuracy))
    decided = [verdict for verdict in (Verdict.REPRODUCED, Verdict.NOT_SEEN) if verdict in verdicts]
    low, high = t_interval(nll) or (None, None)
    texts = [mean_with_interval(values, digits=4) or "-" for values in (nll, accuracy)]
    yield Claim(
        id="better-than-early-stopping",
        statement="NLL or accuracy is better than that of cross-entropy stopped in time",
        verdict=decided[0] if decided else Verdict.INCONCLUSIVE,
        estimate=mean_of(nll) if nll else None,
        low=low,
        high=high,
        n=(len(nll),) if nll else (),
        measured=f"NLL {texts[0]}; accuracy {texts[1]}",
    )


def _keeps(runs: Sequence[Trajectory], optimizer: str) -> Claim:
    id = f"calibration-kept/{slug(optimizer)}"
    statement = f"{optimizer}: {LONGER} times longer, ECE stays within {KEPT} of its best, and cross-entropy's does not"
    ours, plain = (_rises(runs, optimizer, method) for method in (OURS, PLAIN))
    if not ours or not plain:
        return Claim(id, statement, Verdict.INCONCLUSIVE)
    rise, other = mean_of(ours), mean_of(plain)
    return Claim(
        id,
        statement,
        Verdict.of(rise <= KEPT < other),
        estimate=rise,
        n=(len(ours), len(plain)),
        measured=f"{rise:+.3f} against {other:+.3f} (n={min(len(ours), len(plain))})",
    )


def _rises(runs: Sequence[Trajectory], optimizer: str, method: str) -> list[float]:
    """By how much test ECE ends above its best, in the runs that go on."""
    ends = [kept(run, runs) for run in lengthened(runs, optimizer, method)]
    return [last - best for best, _, last in ends if math.isfinite(last - best)]


def _corrupted(runs: Sequence[Trajectory]) -> Iterator[Claim]:
    ours, plain = corrupted(runs, OURS), corrupted(runs, PLAIN)
    if plain:
        yield difference_claim(
            "corrupted-ece-below-temperature-scaling",
            "under corruption ECE is below that of cross-entropy after temperature scaling",
            [ours[key]["ece"] - plain[key]["ece_temperature"] for key in plain if key in ours],
            digits=4,
        )
