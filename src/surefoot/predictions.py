"""What a classifier predicted for a set of samples, and what was true: the vocabulary of every metric."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from surefoot.argument_error import ArgumentError
from surefoot.scores import Scores, are_probabilities, check_finite, check_shape, logits_of_probabilities

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    ArrayLike = Tensor | np.ndarray[Any, Any] | Sequence[Any]


@dataclass(frozen=True, eq=False)
class Predictions(Scores):
    """Logits and true labels of N samples over K classes, checked once, with what follows from them.

    Derived quantities are float64 whatever the logits' dtype, so that sums over millions of samples stay exact.
    Probabilities come in by `Predictions.from_probabilities`; nothing guesses from values which it was given.
    NumPy arrays and lists come in by `Predictions.of`.

    >>> p = Predictions(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]))
    >>> p.correct.tolist(), p.margin.tolist()
    ([True, False], [2.0, -1.0])
    """

    labels: Tensor  # [N], integers in 0..K-1

    def __post_init__(self) -> None:
        logits, labels = self.logits, self.labels
        check_shape("logits", logits)
        if labels.is_floating_point() or labels.dtype == torch.bool or labels.shape != logits.shape[:1]:
            raise ValueError(
                f"`labels` must be integers of shape [{logits.shape[0]}], "
                f"got {labels.dtype} of shape {list(labels.shape)}."
            )
        if labels.dtype in (torch.uint16, torch.uint32, torch.uint64):  # these have no minimum and maximum
            object.__setattr__(self, "labels", labels.long())
            labels = self.labels
        if logits.device != labels.device:
            raise ValueError(f"`labels` must be on {logits.device} like the logits, got {labels.device}.")
        if not logits.is_meta:  # the meta device has shapes but no values
            check_labels(labels, num_classes=logits.shape[1])
            check_finite(logits)

    @classmethod
    def of(
        cls,
        logits: "Predictions | ArrayLike | None" = None,
        labels: "ArrayLike | None" = None,
        *,
        probabilities: "ArrayLike | None" = None,
    ) -> "Predictions":
        """Predictions from tensors, NumPy arrays or lists; predictions are returned as they are.

        Args:
            logits: Pre-softmax scores [N, K], or `Predictions`.
            labels: True classes [N], whole numbers from 0; not with `Predictions`.
            probabilities: Probabilities [N, K], in the place of logits.

        Raises:
            ValueError: Where an argument is missing or wrong, and where the rows of `logits` are probabilities.

        >>> Predictions.of([[2, 0], [0, 1]], [0, 0]).correct.tolist()
        [True, False]
        >>> Predictions.of(probabilities=[[0.8, 0.2]], labels=[1]).confidence.tolist()
        [0.8]
        """
        if isinstance(logits, Predictions):
            if labels is not None or probabilities is not None:
                raise ArgumentError("`labels` and `probabilities` must not be given beside predictions.")
            return logits
        if (logits is None) == (probabilities is None):
            raise ArgumentError(
                "Give `logits` or `probabilities`, one of them, and `labels`.", "logits", "probabilities", "labels"
            )
        if labels is None:
            raise ArgumentError("`labels` must be given: the true class of each sample, from 0.", "labels")
        name, values = ("logits", logits) if logits is not None else ("probabilities", probabilities)
        scores = _as_tensor(name, values).detach()
        scores = scores if scores.is_floating_point() else scores.double()
        truth = whole_labels(_as_tensor("labels", labels))
        if not isinstance(labels, Tensor):
            truth = truth.to(scores.device)
        if name == "probabilities":
            return cls.from_probabilities(scores, truth)
        predictions = cls(scores, truth)
        if not scores.is_meta and are_probabilities(scores):
            raise ArgumentError(
                "The rows of `logits` all lie in [0, 1] and sum to 1, as only probabilities do: "
                "pass them as `probabilities`.",
                "logits",
                "probabilities",
            )
        return predictions

    @classmethod
    def from_probabilities(cls, probabilities: Tensor, labels: Tensor) -> "Predictions":
        """Predictions from rows of probabilities, which are kept as given: not clipped, not rescaled.

        The logits are their logarithms in float64, with a probability of 0 taken as the smallest normal number: margins
        need finite logits, while every metric reads the probabilities themselves. For post-hoc maps see `floored`.

        >>> p = Predictions.from_probabilities(torch.tensor([[0.8, 0.2]], dtype=torch.float64), torch.tensor([0]))
        >>> p.confidence.tolist()
        [0.8]
        """
        return cls(logits_of_probabilities(probabilities), labels, given_probabilities=probabilities)

    def floored(self, *, least: float = 1e-12) -> "Predictions":
        """The same for a post-hoc map to read: logits of the probabilities given, none of them below `least`.

        A probability that was rounded to 0 has no logarithm, and a temperature would follow whatever stands in for it.
        Predictions from logits are left as they are.

        >>> rounded = Predictions.from_probabilities(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
        >>> [round(value, 1) for value in rounded.floored().logits[0].tolist()]
        [0.0, -27.6]
        """
        return self if self.given_probabilities is None else Predictions(self.floored_logits(least=least), self.labels)

    @cached_property
    def correct(self) -> Tensor:
        """Whether the predicted class is the true one."""
        return self.predicted == self.labels  # [N]

    @cached_property
    def margin(self) -> Tensor:
        """The true margin z_y - max_{j != y} z_j: positive where the prediction is right, by how much."""
        parts = []
        for block in self.blocks():
            label = block.labels.long()[:, None]
            others = block.logits.scatter(1, label, -torch.inf).amax(dim=1)
            parts.append(block.logits.gather(1, label)[:, 0].double() - others)
        return torch.cat(parts)  # [N]


def check_labels(labels: Tensor, *, num_classes: int) -> None:
    """Raise ValueError unless every label lies in 0..num_classes-1."""
    low, high = (int(bound) for bound in labels.aminmax())
    if low < 0 or high >= num_classes:
        raise ValueError(f"`labels` must lie in 0..{num_classes - 1}, got values from {low} to {high}.")


def whole_labels(labels: Tensor) -> Tensor:
    """Labels [N] or [N, 1] as int64 [N]; floating point is taken where every number is whole."""
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.is_floating_point():
        whole = labels.long()
        if not torch.equal(whole.to(labels.dtype), labels):
            raise ValueError("`labels` must be whole numbers, got others among them.")
        return whole
    return labels.long() if labels.dtype != torch.bool else labels


def _as_tensor(name: str, values: Any) -> Tensor:
    if isinstance(values, Tensor):
        return values
    import numpy as np

    try:
        array = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise ArgumentError(f"`{name}` must be an array of numbers: {error}", name) from None
    if array.dtype.kind not in "biuf":
        raise ArgumentError(f"`{name}` must be an array of numbers, got {array.dtype}.", name)
    dtype = np.dtype(np.float64) if array.dtype == np.longdouble else array.dtype.newbyteorder("=")
    return torch.tensor(np.ascontiguousarray(array, dtype=dtype))
