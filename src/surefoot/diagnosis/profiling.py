"""The profile of predictions: by class, by confidence, by margin, and the samples that stand out."""

import torch
from torch import Tensor

from surefoot.diagnosis.profile import Group, Profile, Sample
from surefoot.metrics import Evaluation, interval
from surefoot.metrics.bins import BinSums, top_label_sums
from surefoot.metrics.significance import ece_test
from surefoot.predictions import Predictions

_TAILS = (0.01, 0.05, 0.1)


def profile(
    predictions: Predictions,
    *,
    split: str = "test",
    num_bins: int = 15,
    level: float = 0.95,
    num_samples: int = 20,
    evaluation: Evaluation | None = None,
) -> Profile:
    """Confidence against accuracy of all samples, of each predicted class and of each bin, and the worst samples.

    The limits of classes hold for all classes at once, those of bins for all bins at once. At most `num_samples`
    samples are listed.

    Args:
        predictions: The predictions.
        split: What their samples are, "test" or "train".
        num_bins: Number of bins of the confidence.
        level: Confidence level of the limits.
        num_samples: How many samples are listed at most.
        evaluation: The evaluation of `predictions`, where there is one: its bins, level, ECE and p-value are taken.
    """
    if evaluation is not None:
        num_bins, level = evaluation.num_bins, evaluation.level
        ece, p_value = evaluation.metrics["ece"], evaluation.significance.p_value
    else:
        ece = interval("ece", predictions, level=level, num_bins=num_bins)
        p_value = ece_test(predictions, num_bins=num_bins).p_value
    n, num_classes = predictions.num_samples, predictions.num_classes
    confidence, correct, margin = predictions.confidence, predictions.correct, predictions.margin
    by_class = BinSums.of(confidence, correct, predictions.predicted, num_bins=num_classes)
    by_bin = top_label_sums(predictions, num_bins=num_bins)
    weights = (-margin).softmax(dim=0)
    order = margin.argsort(stable=True)
    wrong = (~correct).nonzero()[:, 0]
    most = wrong[confidence[wrong].argsort(descending=True, stable=True)]
    return Profile(
        split=split,
        whole=_whole(predictions, level=level),
        ece=ece.value,
        ece_limits=(ece.low, ece.high),
        p_value=p_value,
        classes=_groups(by_class, [str(k) for k in range(num_classes)], level=level),
        bins=_groups(by_bin, [f"{k / num_bins:.2f}-{(k + 1) / num_bins:.2f}" for k in range(num_bins)], level=level),
        carriers=_samples(predictions, weights, order[:num_samples]),
        tail=tuple((part, float(weights[order[: max(1, round(part * n))]].sum())) for part in _TAILS),
        wrong=_samples(predictions, weights, most[:num_samples]),
        num_wrong=len(wrong),
    )


def _whole(predictions: Predictions, *, level: float) -> Group:
    confidence, accuracy = float(predictions.confidence.mean()), float(predictions.correct.double().mean())
    return Group.of("all", count=predictions.num_samples, confidence=confidence, accuracy=accuracy, level=level)


def _samples(predictions: Predictions, weights: Tensor, places: Tensor) -> tuple[Sample, ...]:
    columns = (predictions.labels, predictions.predicted, predictions.confidence, predictions.margin, weights)
    values = zip(places.tolist(), *(column[places].tolist() for column in columns), strict=True)
    return tuple(Sample(*each) for each in values)


def _groups(sums: BinSums, names: list[str], *, level: float) -> tuple[Group, ...]:
    counts = [int(count) for count in sums.count.tolist()]
    among = max(1, sum(count > 0 for count in counts))
    total = torch.stack((sums.score, sums.hit), dim=1).tolist()
    return tuple(
        Group.of(name, count=count, confidence=score / count, accuracy=hit / count, level=level, among=among)
        for name, count, (score, hit) in zip(names, counts, total, strict=True)
        if count
    )
