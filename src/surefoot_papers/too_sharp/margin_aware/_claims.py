"""What the margin-aware objective should do, judged by runs."""

from collections.abc import Iterator, Sequence

from surefoot.runs.selection import selected
from surefoot.studies.correlation import Trajectory
from surefoot.studies.paired import interval_of, verdict, with_interval
from surefoot.table import Cell, Table
from surefoot_papers.too_sharp.margin_aware._tuned import LONGER, OURS, PLAIN, Ends, gaps, method_of, tuned, usual

MISCALIBRATED = 0.05  # debiased, of cross-entropy: below, there is nothing to cut
CUTS = {"muon": 3.4}  # reported for the paper, second-hand
CUT = 2.0  # for every other optimizer
POINT, SAME, KEPT = 0.01, 0.01, 0.03  # accuracy that may be lost, ECE that is the same, ECE that is kept
UNSURE = "cannot tell at this scale"
UNTOLD = "-"


def optimizers(runs: Sequence[Trajectory]) -> list[str]:
    """The optimizers of the runs, in the study's order."""
    return list(dict.fromkeys(run.optimizer for run in runs))


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
    found = {}
    for run in runs:
        if method_of(run.spec) != method:
            continue
        names = ("accuracy", "ece", "ece_temperature")
        for row in (usual(run, runs)[-1], run.rows[-1]):
            kinds = [key.removesuffix("/auroc_ood") for key in row if key.endswith("/auroc_ood") and "-" in key]
            scores = {name: [v for kind in kinds if (v := row.get(f"{kind}/{name}")) is not None] for name in names}
            if all(scores.values()):
                found[run.optimizer, run.spec.seed] = {name: _mean(values) for name, values in scores.items()}
                break
    return found


def kept(run: Trajectory, runs: Sequence[Trajectory]) -> tuple[float, float, float]:
    """Test ECE at its best since the lowest validation NLL of the usual budget, after that budget, and at the end."""
    first = usual(run, runs)
    begun = (selected(first) or first[0])["step"] or 0
    best = min(row["test/ece"] or 0.0 for row in run.rows if (row["step"] or 0) >= begun)
    return best, first[-1]["test/ece"] or 0.0, run.rows[-1]["test/ece"] or 0.0


def lengthened(runs: Sequence[Trajectory], optimizer: str, method: str) -> list[Trajectory]:
    """The runs that go on after the usual budget."""
    mine = [run for run in runs if (run.optimizer, method_of(run.spec)) == (optimizer, method)]
    return [run for run in mine if len(usual(run, runs)) < len(run.rows)]


def margin_claims(runs: Sequence[Trajectory]) -> Table:
    """Every claim with what was measured and the verdict."""
    rows = [*_below(runs), *(_cut(runs, optimizer) for optimizer in optimizers(runs))]
    last, stopped = paired(runs, PLAIN, stopped=False), paired(runs, PLAIN, stopped=True)

    accuracy, score = (pooled(last, key) for key in ("test/accuracy", "test/nll"))
    rows.append(
        (
            "accuracy is at most a point below cross-entropy's",
            with_interval(accuracy, digits=4),
            _above(accuracy, -POINT),
        )
    )
    rows.append(("NLL is below cross-entropy's", with_interval(score, digits=4), verdict(score, lower=True)))
    error = pooled(stopped, "test/ece")
    higher = _above([-gap for gap in error], -SAME)
    rows.append(
        (f"ECE is at most {SAME} above that of cross-entropy stopped in time", with_interval(error, digits=4), higher)
    )
    score, accuracy = (pooled(stopped, key) for key in ("test/nll", "test/accuracy"))
    either = (verdict(score, lower=True), verdict(accuracy, lower=False))
    told = f"NLL {with_interval(score, digits=4) or UNTOLD}; accuracy {with_interval(accuracy, digits=4) or UNTOLD}"
    said = "holds" if "holds" in either else "does not hold" if "does not hold" in either else UNSURE
    rows.append(("NLL or accuracy is better than that of cross-entropy stopped in time", told, said))
    rows += [_keeps(runs, optimizer) for optimizer in optimizers(runs)]
    ours, plain = corrupted(runs, OURS), corrupted(runs, PLAIN)
    if plain:
        off = [ours[key]["ece"] - plain[key]["ece_temperature"] for key in plain if key in ours]
        claim = "under corruption ECE is below that of cross-entropy after temperature scaling"
        rows.append((claim, with_interval(off, digits=4), verdict(off, lower=True)))
    return Table(
        name="claims",
        title="What the objective should do, and what these runs say",
        columns=("claim", "measured", "verdict"),
        rows=tuple(rows),
        notes=(
            "Differences are ours less the other, paired by optimizer and seed, with Student's 95 % interval; a claim "
            "holds or does not where the whole interval lies on one side. Cuts and what is kept go by means of seeds.",
        ),
    )


def _below(runs: Sequence[Trajectory]) -> Iterator[tuple[Cell, ...]]:
    for optimizer in optimizers(runs):
        ours, plain = tuned(runs, optimizer, OURS), tuned(runs, optimizer, PLAIN)
        off = [] if ours is None or plain is None else gaps(ours, plain, "test/ece")
        yield f"{optimizer}: ECE is below cross-entropy's", with_interval(off, digits=4), verdict(off, lower=True)


def _cut(runs: Sequence[Trajectory], optimizer: str) -> tuple[Cell, ...]:
    least = CUTS.get(optimizer, CUT)
    claim = f"{optimizer}: ECE is at least {least:g} times lower than cross-entropy's"
    ours, plain = tuned(runs, optimizer, OURS), tuned(runs, optimizer, PLAIN)
    if ours is None or plain is None:
        return claim, "-", UNSURE
    debiased = _mean(plain.values("test/debiased_rms_ce"))
    mine, theirs = _mean(ours.values("test/ece")), _mean(plain.values("test/ece"))
    told = f"{theirs:.3f} / {mine:.3f} = {theirs / mine if mine else float('inf'):.1f} (n={len(ours.rows)})"
    if debiased <= MISCALIBRATED:
        return claim, told, f"cross-entropy's is {debiased:.3f} debiased: nothing to cut"
    return claim, told, "holds" if theirs >= least * mine else "does not hold"


def _keeps(runs: Sequence[Trajectory], optimizer: str) -> tuple[Cell, ...]:
    claim = f"{optimizer}: {LONGER} times longer, ECE stays within {KEPT} of its best, and cross-entropy's does not"
    ends = [[kept(run, runs) for run in lengthened(runs, optimizer, method)] for method in (OURS, PLAIN)]
    losses = [[last - best for best, _, last in found] for found in ends]
    if not all(losses):
        return claim, "-", UNSURE
    ours, plain = map(_mean, losses)
    told = f"{ours:+.3f} against {plain:+.3f} (n={min(map(len, losses))})"
    return claim, told, "holds" if ours <= KEPT < plain else "does not hold"


def _above(values: Sequence[float], limit: float) -> str:
    interval = interval_of(values)
    if interval is None:
        return UNSURE
    return "holds" if interval[0] > limit else "does not hold" if interval[1] < limit else UNSURE


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("nan")
