"""What the paper says about the coupling, judged by runs."""

import math
from collections.abc import Iterator, Sequence
from itertools import product
from statistics import median

from surefoot.runs.trajectory import Trajectory
from surefoot.studies.claim import Claim, Verdict, counted_claim, slug
from surefoot.studies.correlation import (
    NAMES,
    SPACING,
    Cells,
    Correlation,
    Pair,
    all_above_zero,
    correlation_claim,
    positive,
)
from surefoot.studies.intervals import t_interval
from surefoot.table import Estimate
from surefoot_papers.too_sharp.coupling.between_runs import FEWEST_RATES, rank_between

KERNEL_GAP = 0.1  # between KCE's r and ECE's: up to here they are the same
TOGETHER = 2.0  # two peaks within this factor of steps come at about the same time; it does not ask how long the run is
HARDLY = 0.5  # r within this of 0 is hardly any
HARDLY_COUPLED = ("adamw", "muon")  # on the test set, by the paper's Table 1
NOT_IN_TABLE = "bulk_sgd"  # which compares KCE with ECE
FEWEST_RUNS = 2  # below which nothing is reproduced in every run
TRAINING: Pair = ("train", "ece", "train")
TEST: Pair = ("test", "ece", "test")
TEST_OF_TRAINING: Pair = ("test", "ece", "train")
NOTES = (
    "In brackets the 95 % t-interval of the mean over learning rates, cut to [-1, 1]. A correlation is reproduced "
    "where both intervals lie above 0, not seen where both lie below, and inconclusive otherwise. GN: largest "
    "eigenvalue of the Gauss-Newton matrix. Batch sharpness: mean curvature along the gradients of batches. KCE: "
    "kernel calibration error of the top label.",
    "Before interpolation: up to the first observed step with every training sample classified correctly. A run that "
    "never interpolates is all before. After it: over equally spaced steps, of runs that interpolate.",
    f"Hardly: both intervals within {HARDLY:g} of 0, our choice; not seen where both lie outside. KCE and ECE are "
    "compared in the cells that the paper's table has, which BulkSGD is not in.",
    f"About the same time: the later peak at most {TOGETHER:g} times as many steps from the start, our choice. A run "
    "that ends at a peak does not show it.",
    "Lower sharpness, lower ECE: Spearman's r between the learning rates of an optimizer, its mean over optimizers "
    f"with the t-interval of that; an optimizer needs {FEWEST_RATES} learning rates. Ranks are coarse: where all "
    "optimizers agree the interval has no width. A learning rate may move both.",
)


def coupling_claims(cells: Cells, runs: Sequence[Trajectory], optimizers: Sequence[str]) -> Iterator[Claim]:
    """All claims of the coupling study."""
    yield from _correlates(cells, optimizers)
    yield from _hardly_correlates(cells, optimizers)
    yield from _before_interpolation(cells, optimizers)
    yield from _after_interpolation(cells, optimizers)
    yield from _kernel(cells, optimizers)
    yield _rise_and_fall(runs)
    yield from _peaks_together(runs, optimizers)
    yield from _edge_before_peak(runs)
    yield _between_runs(runs, optimizers)


def _correlates(cells: Cells, optimizers: Sequence[str]) -> Iterator[Claim]:
    for pair in dict.fromkeys(pair for _, pair, _, _ in cells):
        split, error, sharpness = pair
        for optimizer in optimizers if error == "ece" else ():
            samplings = _whole(cells, optimizer, pair)
            yield correlation_claim(
                f"correlates/{split}-ece/{sharpness}/{slug(optimizer)}",
                f"{split} ECE goes along with sharpness ({NAMES[sharpness]}) under {optimizer}: r > 0",
                samplings,
                verdict=positive(samplings),
            )


def _hardly_correlates(cells: Cells, optimizers: Sequence[str]) -> Iterator[Claim]:
    for optimizer in [name for name in HARDLY_COUPLED if name in optimizers]:
        samplings = _whole(cells, optimizer, TEST)
        yield correlation_claim(
            f"hardly-correlates/{slug(optimizer)}",
            f"test ECE hardly goes along with sharpness ({NAMES['test']}) under {optimizer}: |r| < {HARDLY:g}",
            samplings,
            verdict=_near_zero(samplings),
        )


def _near_zero(samplings: Sequence[Correlation]) -> Verdict:
    intervals = [item.interval for item in samplings if item.interval is not None]
    within = all(low > -HARDLY and high < HARDLY for low, high in intervals)
    outside = all(low > HARDLY or high < -HARDLY for low, high in intervals)
    return Verdict.of(within, decided=len(intervals) == len(samplings) and (within or outside))


def _before_interpolation(cells: Cells, optimizers: Sequence[str]) -> Iterator[Claim]:
    for optimizer in optimizers:
        samplings = [cells[optimizer, TRAINING, sampling, "before"] for sampling in SPACING]
        where = f"({NAMES['train']}) under {optimizer}"
        yield correlation_claim(
            f"before-interpolation/{slug(optimizer)}",
            f"before interpolation train ECE goes along with sharpness {where}: r > 0",
            samplings,
            verdict=positive(samplings),
        )


def _after_interpolation(cells: Cells, optimizers: Sequence[str]) -> Iterator[Claim]:
    for optimizer in optimizers:
        item = cells[optimizer, TEST_OF_TRAINING, "equal", "after"]
        if item.n:
            yield correlation_claim(
                f"after-interpolation/{slug(optimizer)}",
                f"after interpolation test ECE rises while the training set's sharpness falls under {optimizer}: r < 0",
                [item],
                verdict=positive([item]).opposite,
            )


def _kernel(cells: Cells, optimizers: Sequence[str]) -> Iterator[Claim]:
    for sampling, spacing in SPACING.items():
        means = {key[:2]: item.mean for key, item in cells.items() if key[2:] == (sampling, "whole")}
        gaps = []
        for name, split in product([name for name in optimizers if name != NOT_IN_TABLE], ("train", "test")):
            ece, kce = (means[name, (split, error, split)] for error in ("ece", "kce"))
            if ece is not None and kce is not None:
                gaps.append(abs(ece - kce))
        same = all(gap <= KERNEL_GAP for gap in gaps)
        yield Claim(
            id=f"kce-agrees/{slug(spacing)}",
            statement=f"KCE gives r within {KERNEL_GAP} of ECE's, so it is no artefact of bins: {spacing} steps",
            verdict=Verdict.of(same, decided=len(gaps) >= FEWEST_RUNS or not same),
            estimate=max(gaps, default=None),
            n=(len(gaps),),
            unit="cells",
            measured=f"at most {max(gaps):.2f} apart in {len(gaps)} cells" if gaps else "",
        )


def _rise_and_fall(runs: Sequence[Trajectory]) -> Claim:
    both = [(_rises_and_falls(run, "train/ece"), _rises_and_falls(run, "train/ggn_sharpness")) for run in runs]
    reached = [pair for run, pair in zip(runs, both, strict=True) if run.interpolated is not None]
    humps = [ece and sharpness for ece, sharpness in reached if ece is not None and sharpness is not None]
    return counted_claim(
        "rise-and-fall",
        "training ECE and sharpness start and end below half their peak in every run that interpolates",
        humps,
        measured=f"{sum(humps)} of {len(humps)} runs, {len(runs)} in all",
        fewest=FEWEST_RUNS,
    )


def _rises_and_falls(run: Trajectory, key: str) -> bool | None:
    """Whether a quantity starts and ends below half its peak; None where its first or last value is missing."""
    place = run.peak(key)
    ends = (run.first(key), run.last(key))
    if place is None or any(map(math.isnan, ends)):
        return None
    return max(ends) < float(run[key][place]) / 2


def _peaks_together(runs: Sequence[Trajectory], optimizers: Sequence[str]) -> Iterator[Claim]:
    for optimizer in optimizers:
        own = [run for run in runs if run.optimizer == optimizer]
        factors = [factor for run in own if (factor := between_peaks(run)) is not None]
        together = [factor <= TOGETHER for factor in factors]
        count = f"in {sum(together)} of {len(factors)} runs, {len(own)} in all"
        yield counted_claim(
            f"peaks-together/{slug(optimizer)}",
            f"training ECE and sharpness peak at about the same time in every run under {optimizer}",
            together,
            measured=f"{count}; {median(factors):.3g}-fold in the median" if factors else "",
            fewest=FEWEST_RUNS,
        )


def between_peaks(run: Trajectory) -> float | None:
    """How many times as many steps the later of the two peaks takes; None where the run does not show both.

    A run that ends at a peak does not show it: the quantity may rise further.
    """
    ece, sharpness = run.peak("train/ece"), run.peak("train/ggn_sharpness")
    if ece is None or sharpness is None or max(ece, sharpness) == len(run) - 1:
        return None
    steps = [int(run.steps[place]) for place in (ece, sharpness)]
    return max(*steps, 1) / max(min(steps), 1)


def _edge_before_peak(runs: Sequence[Trajectory]) -> Iterator[Claim]:
    own = [run for run in runs if run.optimizer == "gd"]
    reached = [first for run in own if (first := _edge_comes_first(run)) is not None]
    if own:
        yield counted_claim(
            "edge-before-peak/gd",
            "under gd the training set's sharpness reaches 2/lr before training ECE peaks, in every run",
            reached,
            measured=f"in {sum(reached)} of {len(reached)} runs",
            fewest=FEWEST_RUNS,
        )


def _edge_comes_first(run: Trajectory) -> bool | None:
    place = run.peak("train/ece")
    if place is None or not run.has("train/ggn_sharpness"):
        return None
    return bool((run["train/ggn_sharpness"][: place + 1] >= 2 / run.lr).any())


def _between_runs(runs: Sequence[Trajectory], optimizers: Sequence[str]) -> Claim:
    by_sampling = [
        [r for name in optimizers if (r := rank_between(runs, name, sampling=sampling)) is not None]
        for sampling in SPACING
    ]
    intervals = [t_interval(values, limits=(-1.0, 1.0)) for values in by_sampling]
    texts = []
    for spacing, values, interval in zip(SPACING.values(), by_sampling, intervals, strict=True):
        bracket = "" if interval is None else f" [{interval[0]:.2f}, {interval[1]:.2f}]"
        texts.append(f"{spacing} steps: {Estimate.of(values)}{bracket}")
    low, high = intervals[0] or (None, None)
    return Claim(
        id="between-runs",
        statement="of one optimizer's runs those of lower mean sharpness have the lower mean training ECE: rank r > 0",
        verdict=all_above_zero(intervals),
        estimate=Estimate.of(by_sampling[0]).mean,
        low=low,
        high=high,
        n=(len(by_sampling[0]),),
        unit="optimizers",
        measured="; ".join(texts),
    )


def _whole(cells: Cells, optimizer: str, pair: Pair) -> list[Correlation]:
    return [cells[optimizer, pair, sampling, "whole"] for sampling in SPACING]
