"""What the paper says about squared error on logits, judged by runs."""

import math
from collections.abc import Callable, Iterator, Sequence

from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.claim import Claim, counted_claim, slug
from surefoot.studies.correlation import SPACING, correlation_claim, correlation_of, positive

COLLAPSED = 0.5  # of its largest value along training: what is below has collapsed
CLOSE = 0.05  # to the confidence at the optimum
FITTED = 0.99  # training accuracy from which on a run says something about the optimum
NUM_CLASSES = {  # K, by data set: a run stores its data's name, not its classes
    "cifar10": 10,
    "cifar10-5k": 10,
    "cifar100": 100,
    "cifar100-5k": 100,
    "digits": 10,
    "fashion-mnist": 10,
    "mnist": 10,
    "python-text": 96,
    "svhn": 10,
    "tiny-imagenet": 200,
}
_SHARPNESS = "train/ggn_sharpness"


def squared_error_claims(runs: Sequence[Trajectory]) -> Iterator[Claim]:
    """All claims of the study."""
    squared = [run for run in runs if run.spec.loss.name == "mse"]
    plain = [run for run in runs if run.spec.loss.name == "cross_entropy"]
    yield _every_run(
        "underconfident",
        "under squared error the network is underconfident on its training set",
        [run.last("train/confidence") - run.last("train/accuracy") for run in squared],
        lambda gap: gap < 0,
    )
    yield _confidence_at_optimum(squared)
    for id, statement, key, group, stays in (
        ("squared-error/train-ece", "its training ECE does not collapse", "train/ece", squared, True),
        ("squared-error/sharpness", "its sharpness does not collapse", _SHARPNESS, squared, True),
        ("cross-entropy/train-ece", "under cross-entropy training ECE does", "train/ece", plain, False),
        ("cross-entropy/sharpness", "and so does its sharpness", _SHARPNESS, plain, False),
    ):
        shares = [left_of_peak(run, key) for run in group]
        yield _every_run(f"collapse/{id}", statement, shares, _stays if stays else _collapses)
    for optimizer in sorted({run.optimizer for run in squared}):
        pair = ("train", "ece", "train")
        samplings = [correlation_of(squared, optimizer, pair, sampling=sampling) for sampling in SPACING]
        statement = f"under squared error too ECE goes along with sharpness under {optimizer}: r > 0"
        verdict = positive(samplings)
        yield correlation_claim(f"correlates/{slug(optimizer)}", statement, samplings, verdict=verdict)


def claim_notes(runs: Sequence[Trajectory]) -> tuple[str, ...]:
    """What is under the table of claims; data whose number of classes is unknown is named."""
    blank = sorted(
        {run.spec.data.name for run in runs if run.spec.loss.name == "mse" and num_classes(run.spec) is None}
    )
    unknown = (
        f"The number of classes K of {', '.join(blank)} is unknown here: these runs say nothing about e / (e + K - 1)."
    )
    return (
        f"Collapsed: below {COLLAPSED:.0%} of its largest value. Fits: training accuracy of at least {FITTED:.0%}. "
        "Both are our choice.",
        "r: as in the coupling study, of training ECE with the training set's GN sharpness. In brackets the 95 % "
        "t-interval of the mean over learning rates, each the mean over its seeds. It is reproduced where the "
        "intervals of both samplings of steps lie above 0, not seen where both lie below, and inconclusive otherwise.",
        *([unknown] if blank else []),
    )


def confidence_at_optimum(num_classes: int) -> float:
    """Softmax confidence of one-hot logits, e / (e + K - 1).

    >>> round(confidence_at_optimum(10), 6)
    0.231969
    """
    return math.e / (math.e + num_classes - 1)


def num_classes(spec: RunSpec) -> int | None:
    """K of a run's data; None where the data's name does not say it."""
    return NUM_CLASSES.get(spec.data.name)


def left_of_peak(run: Trajectory, key: str) -> float:
    """The last value of a quantity over the largest along the run; NaN where it was not measured."""
    place = run.peak(key)
    largest = 0.0 if place is None else float(run[key][place])
    return run.last(key) / largest if largest > 0 else math.nan


def _confidence_at_optimum(squared: Sequence[Trajectory]) -> Claim:
    optima = [(run, confidence_at_optimum(k)) for run in squared if (k := num_classes(run.spec)) is not None]
    values = " or ".join(sorted({f"{optimum:.3f}" for _, optimum in optima}))
    return _every_run(
        "confidence-at-optimum",
        f"once it fits, its confidence is near e / (e + K - 1){' = ' if values else ''}{values} (within {CLOSE})",
        [run.last("train/confidence") - optimum for run, optimum in optima if run.last("train/accuracy") >= FITTED],
        lambda gap: abs(gap) < CLOSE,
    )


def _every_run(id: str, statement: str, values: Sequence[float], holds: Callable[[float], bool]) -> Claim:
    """The claim that something is true of a value in every run that has it."""
    cases = [holds(value) for value in values if math.isfinite(value)]
    return counted_claim(id, statement, cases, measured=f"in {sum(cases)} of {len(cases)} runs")


def _stays(share: float) -> bool:
    return share >= COLLAPSED


def _collapses(share: float) -> bool:
    return share < COLLAPSED
