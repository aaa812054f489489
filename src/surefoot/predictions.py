"""What a classifier said about a set of samples, and what was true: the vocabulary of every metric."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Predictions:
    """Logits and true labels of N samples over K classes, checked once, with what follows from them.

    Derived quantities are float64 whatever the logits' dtype, so that sums over millions of samples stay exact.

    >>> p = Predictions(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]))
    >>> p.correct.tolist(), p.margin.tolist()
    ([True, False], [2.0, -1.0])
    """

    logits: Tensor  # [N, K], pre-softmax
    labels: Tensor  # [N], integers in 0..K-1

    def __post_init__(self) -> None:
        logits, labels = self.logits, self.labels
        if logits.ndim != 2 or not logits.is_floating_point():
            raise ValueError(
                f"`logits` must be floating point of shape [N, K], got {logits.dtype} of shape {list(logits.shape)}."
            )
        if logits.shape[0] < 1 or logits.shape[1] < 2:
            raise ValueError(f"`logits` must hold at least 1 sample and 2 classes, got shape {list(logits.shape)}.")
        if labels.is_floating_point() or labels.dtype == torch.bool or labels.shape != logits.shape[:1]:
            raise ValueError(
                f"`labels` must be integers of shape [{logits.shape[0]}], "
                f"got {labels.dtype} of shape {list(labels.shape)}."
            )
        if logits.device != labels.device:
            raise ValueError(f"`labels` must be on {logits.device} like the logits, got {labels.device}.")
        if not logits.is_meta:  # the meta device has shapes but no values
            check_labels(labels, num_classes=logits.shape[1])
            check_finite(logits)

    @property
    def num_samples(self) -> int:
        """N."""
        return self.logits.shape[0]

    @property
    def num_classes(self) -> int:
        """K."""
        return self.logits.shape[1]

    @cached_property
    def exact(self) -> Tensor:
        """The logits in float64."""
        return self.logits.double()  # [N, K]

    @cached_property
    def predicted(self) -> Tensor:
        """The most likely class, the lowest index on ties."""
        return self.logits.argmax(dim=1)  # [N]

    @cached_property
    def correct(self) -> Tensor:
        """Whether the predicted class is the true one."""
        return self.predicted == self.labels  # [N]

    @cached_property
    def confidence(self) -> Tensor:
        """The largest probability."""
        return (self.exact.amax(dim=1) - self.exact.logsumexp(dim=1)).exp()  # [N]

    @cached_property
    def margin(self) -> Tensor:
        """The true margin z_y - max_{j != y} z_j: positive where the prediction is right, by how much."""
        label = self.labels.long()[:, None]
        others = self.exact.scatter(1, label, -torch.inf).amax(dim=1)
        return self.exact.gather(1, label)[:, 0] - others  # [N]


def check_labels(labels: Tensor, *, num_classes: int) -> None:
    """Raise ValueError unless every label lies in 0..num_classes-1."""
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= num_classes:
        raise ValueError(f"`labels` must lie in 0..{num_classes - 1}, got values from {low} to {high}.")


def check_finite(logits: Tensor) -> None:
    """Raise ValueError if any logit is NaN or infinite."""
    bad = ~logits.isfinite().all(dim=1)
    if bool(bad.any()):
        first = int(bad.nonzero()[0, 0])
        raise ValueError(f"`logits` must be finite, got NaN or inf in {int(bad.sum())} rows, first in row {first}.")
