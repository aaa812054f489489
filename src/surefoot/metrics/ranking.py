"""How well scores rank samples: areas under ROC and risk-coverage curves, tied scores at their mean over orders."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.predictions import Predictions


def auroc_correct(predictions: Predictions) -> Tensor:
    """Probability that a right prediction has more confidence than a wrong one, ties counted half.

    Range [0, 1], 1 is best, 0.5 is blind. ValueError if all are right or all wrong. Not to be confused with the
    one-versus-rest AUROC of the classes, which is much larger for the same network. O(N log N).
    """
    return separation(predictions.confidence, predictions.correct).area


def auroc_ovr(predictions: Predictions) -> Tensor:
    """Mean over classes of the probability that a sample of the class gets more of its probability than one without.

    Macro one-versus-rest; classes without a sample are left out, because nothing can be said of them. Range [0, 1],
    1 is best. ValueError if there is only one class. O(K N log N).
    """
    return torch.stack([part.area for part in class_separations(predictions)]).mean()


def auroc_ood(predictions: Predictions, *, foreign: Tensor) -> Tensor:
    """Probability that a sample has more confidence than one from another distribution, ties counted half.

    `foreign` holds the confidences of the others. Range [0, 1], 1 is best, 0.5 is blind. O(N log N).
    """
    return foreign_separation(predictions, foreign).area


def aurc(predictions: Predictions) -> Tensor:
    """Area under the risk-coverage curve: mean over k of the error rate among the k most confident samples.

    Range [0, 1], 0 is best. Tied samples count with their mean error, so no order among them matters. Geifman et al.
    2019. O(N log N).
    """
    return _risks(predictions)[0].mean()


@dataclass(frozen=True, eq=False)
class Separation:
    """Area under the ROC curve, and what each sample adds to its variation around the mean."""

    area: Tensor
    influence: Tensor  # [N], mean 0
    num_positive: int
    num_negative: int


def separation(scores: Tensor, positive: Tensor) -> Separation:
    """How well `scores` tell the positive samples from the rest."""
    num_positive = int(positive.sum())
    num_negative = len(positive) - num_positive
    if num_positive == 0 or num_negative == 0:
        raise ValueError(
            f"An AUROC needs samples of both kinds, got {num_positive} positive and {num_negative} negative."
        )
    ordered, order = scores.sort()
    group, size = _tied(ordered)
    end = size.cumsum(0)
    above = positive[order]
    share = []
    for kind, number in ((~above, num_negative), (above, num_positive)):
        upto = torch.cat([end.new_zeros(1), kind.cumsum(0)])[torch.cat([end.new_zeros(1), end])]
        share.append(((upto[:-1] + upto[1:]).double() / (2 * number))[group])  # below, and half of the tied ones
    area = share[0][above].mean()
    number = len(scores)
    grow = [math.sqrt(count / max(1, count - 1)) for count in (num_positive, num_negative)]  # few vary less by chance
    adds = torch.where(
        above,
        (share[0] - area) * (grow[0] * number / num_positive),
        (1 - share[1] - area) * (grow[1] * number / num_negative),
    )
    return Separation(area, torch.empty_like(adds).scatter_(0, order, adds), num_positive, num_negative)


def foreign_separation(predictions: Predictions, foreign: Tensor) -> Separation:
    """How well confidence tells the samples from those of another distribution."""
    if foreign.ndim != 1 or len(foreign) == 0 or not bool(foreign.isfinite().all()):
        raise ValueError(f"`foreign` must hold finite confidences [N], got shape {list(foreign.shape)}.")
    scores = torch.cat([predictions.confidence, foreign.double()])
    return separation(scores, torch.arange(len(scores), device=scores.device) < predictions.num_samples)


def class_separations(predictions: Predictions) -> list[Separation]:
    """The separation of every class that has a sample from the other classes, by its probability."""
    present = torch.bincount(predictions.labels, minlength=predictions.num_classes).nonzero()[:, 0].tolist()
    if len(present) < 2:
        raise ValueError(f"An AUROC of classes needs at least 2 classes among the labels, got {len(present)}.")
    step = max(1, 2**24 // predictions.num_samples)  # columns at a time: probabilities are not kept
    parts = []
    for start in range(0, len(present), step):
        chosen = present[start : start + step]
        columns = torch.cat([block.probabilities[:, chosen] for block in predictions.blocks()])
        parts += [separation(columns[:, k].contiguous(), predictions.labels == label) for k, label in enumerate(chosen)]
    return parts


def aurc_influence(predictions: Predictions) -> Tensor:
    """What each sample adds to the variation of the AURC around its mean, mean 0."""
    risk, order, group, size = _risks(predictions)
    rank = torch.arange(1, len(risk) + 1, dtype=torch.float64, device=risk.device)
    # a sample changes every risk from its own place on, by (error - risk) / rank; tied ones take all places in turn
    later = (1 / rank).flip(0).cumsum(0).flip(0)
    later_risk = (risk / rank).flip(0).cumsum(0).flip(0)
    risk, later, later_risk = (torch.bincount(group, weights=x) / size for x in (risk, later, later_risk))
    wrong = (~predictions.correct[order]).double()
    adds = (risk - later_risk)[group] + wrong * later[group]
    adds = adds - adds.mean()
    return torch.empty_like(adds).scatter_(0, order, adds)


def _tied(ordered: Tensor) -> tuple[Tensor, Tensor]:
    """Of sorted scores, the number of the group of equal ones that each is in, and the groups' sizes."""
    new = (ordered[1:] != ordered[:-1]).cumsum(0)
    group = torch.cat([new.new_zeros(1), new])
    return group, torch.bincount(group)


def _risks(predictions: Predictions) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    ordered, order = predictions.confidence.sort(descending=True)
    group, size = _tied(ordered)
    wrong = (~predictions.correct[order]).double()
    error = (torch.bincount(group, weights=wrong) / size)[group]
    rank = torch.arange(1, len(error) + 1, dtype=torch.float64, device=error.device)
    return error.cumsum(0) / rank, order, group, size
