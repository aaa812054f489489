"""How far a test set is from the training set, label by label, and what robust margins then prove about it."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from surefoot.attack import Norm, worst_shift
from surefoot.eval_mode import evaluating, refuse_training
from surefoot.registry import look_up
from surefoot.theory._bottleneck_matching import bottleneck
from surefoot.theory._certificate import Certificate, certificate
from surefoot.theory._chain import NoSoundBound
from surefoot.theory.lipschitz import robust_margin_floor

_ORDERS = {"l2": 2.0, "linf": math.inf}
_MOST_PER_CLASS = 5_000  # 25 million distances: 200 MB, and minutes


@dataclass(frozen=True)
class Shift:
    """The smallest ball of label-preserving shifts of the training set that holds the test set."""

    marginals_match: bool  # every label has the same share of both sets
    eps: float  # infinite where they do not match
    norm: Norm


def smallest_shift(
    train_inputs: Tensor, train_labels: Tensor, test_inputs: Tensor, test_labels: Tensor, *, norm: Norm
) -> Shift:
    r"""The smallest eps for which test and training set have a coupling with equal labels and ||x - x'|| <= eps.

    The assumption of proposition B.7: both sets as distributions with equal weights, moved into each other without a
    change of label, nothing further than eps. That needs each label to have exactly the same share of both, compared as
    fractions; eps is then the largest of the labels' bottleneck distances. In float64, rounded up. At most 5,000
    samples per class in either set.

    >>> x, y = torch.tensor([[0.0], [1.0], [5.0]]), torch.tensor([0, 0, 1])
    >>> smallest_shift(x, y, x[[1, 0, 2]] + 0.25, y, norm="l2")
    Shift(marginals_match=True, eps=0.2500000000000003, norm='l2')
    >>> smallest_shift(x, y, x, torch.tensor([0, 1, 1]), norm="l2")
    Shift(marginals_match=False, eps=inf, norm='l2')
    """
    order = look_up("norm", norm, _ORDERS)
    train, test = _points("train", train_inputs, train_labels), _points("test", test_inputs, test_labels)
    if train.shape[1] != test.shape[1]:
        raise ValueError(
            f"`test_inputs` must have {train.shape[1]} features like the training inputs, got {test.shape[1]}."
        )
    of_train, of_test = train_labels.cpu(), test_labels.cpu()
    labels = sorted({*of_train.tolist(), *of_test.tolist()})
    own = [(train[of_train == label], test[of_test == label]) for label in labels]
    if any(len(a) * len(test) != len(b) * len(train) for a, b in own):
        return Shift(False, math.inf, norm)
    for label, pair in zip(labels, own, strict=True):
        for name, side in zip(("train_inputs", "test_inputs"), pair, strict=True):
            if len(side) > _MOST_PER_CLASS:
                raise ValueError(
                    f"`{name}` must hold at most {_MOST_PER_CLASS} samples per class, got {len(side)} of class {label}."
                )
    eps = max(bottleneck(_distances(a, b, order).numpy()) for a, b in own)
    return Shift(True, eps, norm)


def certified_on_shift(
    model: nn.Module, train_inputs: Tensor, train_labels: Tensor, shift: Shift, *, radius: float, test_ece: float
) -> Certificate:
    r"""Corollary B.8: test ECE <= (K-1) Q0, Q0 = mean exp(-m_eps) on the training set, eps the radius.

    True of every test set within `radius` of the training set in the sense of `smallest_shift`, which gives `shift` for
    the same training set. Robust margins come from below, by `robust_margin_floor`; where the network has no such
    bound, the number given rests on an attack and the verdict is "assumption not met", as it is when the test set is
    further away. `test_ece` should be accumulated from 1 - p, not from p, or rounding hides values below 1e-8.
    """
    if not 0 <= test_ece <= 1:
        raise ValueError(f"`test_ece` must lie in [0, 1], got {test_ece}.")
    refuse_training(model)
    unmet = []
    if not shift.marginals_match:
        unmet.append("the labels' shares of test and training set differ")
    elif shift.eps > radius:
        unmet.append(f"the test set is {shift.eps:.6g} from the training set, further than {radius:.6g}")
    try:
        margin = robust_margin_floor(model, train_inputs, train_labels, radius=radius, norm=shift.norm)
    except NoSoundBound as reason:
        margin = worst_shift(model, train_inputs, train_labels, radius=radius, norm=shift.norm).margin
        unmet.append(f"robust margins from below: {reason}")
    with evaluating(model), torch.no_grad():
        num_classes = model(train_inputs[:1]).shape[1]
    log_moment = (-margin).logsumexp(dim=0) - math.log(len(margin))  # margins of -50 are normal early in training
    return certificate(
        "B.8: test ECE <= (K - 1) Q0",
        measured=test_ece,
        bound=(num_classes - 1) * log_moment.exp(),
        assumptions=(
            f"the test set is within {radius:.6g} ({shift.norm}) of the training set, labels kept",
            "robust margins from below, proved from the weights",
        ),
        unmet=unmet,
    )


def _distances(a: Tensor, b: Tensor, order: float) -> Tensor:
    exact = torch.cdist(a, b, p=order, compute_mode="donot_use_mm_for_euclid_dist")  # the fast way cancels
    return exact * (1 + (a.shape[1] + 4) * torch.finfo(torch.float64).eps)


def _points(which: str, inputs: Tensor, labels: Tensor) -> Tensor:
    if labels.is_floating_point() or labels.dtype == torch.bool or labels.ndim != 1 or not len(labels):
        raise ValueError(
            f"`{which}_labels` must be integers of shape [N], N at least 1, "
            f"got {labels.dtype} of shape {list(labels.shape)}."
        )
    if inputs.ndim < 2 or inputs.shape[:1] != labels.shape or not bool(inputs.isfinite().all()):
        raise ValueError(
            f"`{which}_inputs` must be finite of shape [{len(labels)}, ...], got shape {list(inputs.shape)}"
            f"{'' if bool(inputs.isfinite().all()) else ' with NaN or inf'}."
        )
    return inputs.detach().reshape(len(labels), -1).double().cpu()
