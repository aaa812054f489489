"""What the paper says of the coupling, judged by runs."""

from collections.abc import Iterator, Sequence
from itertools import product
from statistics import median

from surefoot.studies.correlation import NAMES, SPACING, Cells, Pair, Trajectory, judged, t_interval, verdict
from surefoot.table import Cell, Estimate, Table
from surefoot_papers.too_sharp.coupling.between_runs import FEWEST_RATES, rank_between

KERNEL_GAP = 0.1  # between KCE's r and ECE's: up to here they are the same
TOGETHER = 2.0  # two peaks within this factor of steps come at about the same time; it does not ask how long the run is
HARDLY = 0.5  # r within this of 0 is hardly any
HARDLY_COUPLED = ("adamw", "muon")  # on the test set, by the paper's Table 1
NOT_IN_TABLE = "bulk_sgd"  # which compares KCE with ECE
FEWEST_RUNS = 2  # below which nothing holds of every run
UNSURE = "cannot tell at this scale"
TRAINING: Pair = ("train", "ece", "train")
TEST: Pair = ("test", "ece", "test")
TEST_OF_TRAINING: Pair = ("test", "ece", "train")


def coupling_claims(cells: Cells, runs: Sequence[Trajectory], optimizers: Sequence[str]) -> Table:
    """All claims of the coupling study."""
    rows = [
        *_along(cells, optimizers),
        *_hardly(cells, optimizers),
        *_before_interpolation(cells, optimizers),
        *_after_interpolation(cells, optimizers),
        *_kernel(cells, optimizers),
        _humps(runs),
        *_peaks(runs, optimizers),
        *_edge(runs),
        _between(runs, optimizers),
    ]
    return Table(
        name="claims",
        title="What the paper (Too Sharp, Too Sure) says, and what these runs say",
        columns=("claim", "measured", "verdict"),
        rows=tuple(rows),
        notes=(
            "In brackets the 95 % t-interval of the mean over learning rates, cut to [-1, 1]. A correlation holds "
            "where both intervals lie above 0, does not hold where both lie below, and cannot be told otherwise. GN: "
            "largest eigenvalue of the Gauss-Newton matrix. Batch sharpness: mean curvature along the gradients of "
            "batches. KCE: kernel calibration error of the top label.",
            "Before interpolation: up to the first observed step with every training sample right. A run that never "
            "gets there is all before. After it: over equally spaced steps, of runs that get there.",
            f"Hardly: both intervals within {HARDLY:g} of 0, our choice; it does not hold where both lie outside. KCE "
            "and ECE are compared in the cells that the paper's table has, which BulkSGD is not in.",
            f"About the same time: the later peak at most {TOGETHER:g} times as many steps from the start, our choice. "
            "A run that ends at a peak does not show it.",
            "Lower sharpness, lower ECE: Spearman's r between the learning rates of an optimizer, its mean over "
            f"optimizers with the t-interval of that; an optimizer needs {FEWEST_RATES} learning rates. Ranks are "
            "coarse: where all optimizers agree the interval has no width. A learning rate may move both.",
        ),
    )


def _along(cells: Cells, optimizers: Sequence[str]) -> Iterator[tuple[Cell, ...]]:
    for pair in dict.fromkeys(pair for _, pair, _, _ in cells):
        split, error, sharpness = pair
        for optimizer in optimizers if error == "ece" else ():
            statement = f"{split} ECE goes along with sharpness ({NAMES[sharpness]}) under {optimizer}: r > 0"
            yield statement, *judged([cells[optimizer, pair, sampling, "whole"] for sampling in SPACING])


def _hardly(cells: Cells, optimizers: Sequence[str]) -> Iterator[tuple[Cell, ...]]:
    for optimizer in [name for name in HARDLY_COUPLED if name in optimizers]:
        samplings = [cells[optimizer, TEST, sampling, "whole"] for sampling in SPACING]
        told, _ = judged(samplings)
        intervals = [t_interval(list(item.by_lr.values())) for item in samplings]
        known = [interval for interval in intervals if interval is not None]
        within = [low > -HARDLY and high < HARDLY for low, high in known]
        outside = [low > HARDLY or high < -HARDLY for low, high in known]
        decided = len(known) == len(intervals)
        said = "holds" if decided and all(within) else "does not hold" if decided and all(outside) else UNSURE
        statement = f"test ECE hardly goes along with sharpness ({NAMES['test']}) under {optimizer}: |r| < {HARDLY:g}"
        yield statement, told, said


def _after_interpolation(cells: Cells, optimizers: Sequence[str]) -> Iterator[tuple[Cell, ...]]:
    for optimizer in optimizers:
        found = cells[optimizer, TEST_OF_TRAINING, "equal", "after"]
        told, said = judged([found])
        turned = {"holds": "does not hold", "does not hold": "holds"}.get(said, UNSURE)
        if found.n:
            yield (
                f"after interpolation test ECE rises while the training set's sharpness falls under {optimizer}: r < 0",
                told,
                turned,
            )


def _before_interpolation(cells: Cells, optimizers: Sequence[str]) -> Iterator[tuple[Cell, ...]]:
    for optimizer in optimizers:
        statement = (
            f"before interpolation train ECE goes along with sharpness ({NAMES['train']}) under {optimizer}: r > 0"
        )
        yield statement, *judged([cells[optimizer, TRAINING, sampling, "before"] for sampling in SPACING])


def _kernel(cells: Cells, optimizers: Sequence[str]) -> Iterator[tuple[Cell, ...]]:
    for sampling, spacing in SPACING.items():
        means = {key[:2]: item.mean for key, item in cells.items() if key[2:] == (sampling, "whole")}
        gaps = []
        for name, split in product([name for name in optimizers if name != NOT_IN_TABLE], ("train", "test")):
            first, second = (means[name, (split, error, split)] for error in ("ece", "kce"))
            if first is not None and second is not None:
                gaps.append(abs(first - second))
        told = f"at most {max(gaps):.2f} apart in {len(gaps)} cells" if gaps else "-"
        statement = f"KCE gives r within {KERNEL_GAP} of ECE's, so it is no artefact of bins: {spacing} steps"
        yield statement, told, _every(sum(gap <= KERNEL_GAP for gap in gaps), len(gaps))


def _humps(runs: Sequence[Trajectory]) -> tuple[Cell, ...]:
    reached = [run for run in runs if run.interpolated is not None]
    humps = sum(_rises_and_falls(run, "train/ece") and _rises_and_falls(run, "train/ggn_sharpness") for run in reached)
    statement = "training ECE and sharpness start and end below half their peak in every run that interpolates"
    return statement, f"{humps} of {len(reached)} runs, {len(runs)} in all", _every(humps, len(reached))


def _peaks(runs: Sequence[Trajectory], optimizers: Sequence[str]) -> Iterator[tuple[Cell, ...]]:
    for optimizer in optimizers:
        own = [run for run in runs if run.optimizer == optimizer]
        apart = [factor for run in own if (factor := between_peaks(run)) is not None]
        together = sum(factor <= TOGETHER for factor in apart)
        told = f"in {together} of {len(apart)} runs, {len(own)} in all; {median(apart or [0]):.3g}-fold in the median"
        statement = f"training ECE and sharpness peak at about the same time in every run under {optimizer}"
        yield statement, told if apart else "-", _every(together, len(apart))


def _edge(runs: Sequence[Trajectory]) -> Iterator[tuple[Cell, ...]]:
    own = [run for run in runs if run.optimizer == "gd"]
    first = sum(_reached_before_peak(run) for run in own)
    if own:
        statement = "under gd the training set's sharpness reaches 2/lr before training ECE peaks, in every run"
        yield statement, f"in {first} of {len(own)} runs", _every(first, len(own))


def _reached_before_peak(run: Trajectory) -> bool:
    peak = run.peak("train/ece")["step"] or 0
    return any((row["train/ggn_sharpness"] or 0) >= 2 / run.lr for row in run.rows if (row["step"] or 0) <= peak)


def between_peaks(run: Trajectory) -> float | None:
    """How many times as many steps the later of the two peaks takes; None where the run ends at one of them."""
    steps = [run.peak(key)["step"] or 0 for key in ("train/ece", "train/ggn_sharpness")]
    if max(steps) == run.rows[-1]["step"]:
        return None
    return max(*steps, 1) / max(min(steps), 1)


def _between(runs: Sequence[Trajectory], optimizers: Sequence[str]) -> tuple[Cell, ...]:
    told, intervals = [], []
    for sampling, spacing in SPACING.items():
        found = [r for name in optimizers if (r := rank_between(runs, name, sampling=sampling)) is not None]
        intervals.append(t_interval(found))
        bracket = "" if intervals[-1] is None else f" [{intervals[-1][0]:.2f}, {intervals[-1][1]:.2f}]"
        told.append(f"{spacing} steps: {Estimate.of(found)}{bracket}")
    statement = "of one optimizer's runs those of lower mean sharpness have the lower mean training ECE: rank r > 0"
    return statement, "; ".join(told), verdict(intervals)


def _rises_and_falls(run: Trajectory, key: str) -> bool:
    peak = run.peak(key)[key] or 0
    return (run.rows[0][key] or 0) < peak / 2 and (run.rows[-1][key] or 0) < peak / 2


def _every(count: int, of: int) -> str:
    if count < of:
        return "does not hold"
    return "holds" if of >= FEWEST_RUNS else UNSURE
