"""What a classifier said about a set of samples, and what was true: the vocabulary of every metric."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

_SUM_TOLERANCE = 1e-3  # of a row of probabilities: float16 and four printed digits still pass


@dataclass(frozen=True, eq=False)
class Predictions:
    """Logits and true labels of N samples over K classes, checked once, with what follows from them.

    Derived quantities are float64 whatever the logits' dtype, so that sums over millions of samples stay exact.
    Probabilities come in by `Predictions.from_probabilities`; nothing guesses from values which it was given.

    >>> p = Predictions(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]))
    >>> p.correct.tolist(), p.margin.tolist()
    ([True, False], [2.0, -1.0])
    """

    logits: Tensor  # [N, K], pre-softmax; finite
    labels: Tensor  # [N], integers in 0..K-1
    given_probabilities: Tensor | None = field(default=None, kw_only=True)  # [N, K], where the input was probabilities

    def __post_init__(self) -> None:
        logits, labels = self.logits, self.labels
        _check_shape("logits", logits)
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
    def from_probabilities(cls, probabilities: Tensor, labels: Tensor) -> "Predictions":
        """Predictions from rows of probabilities, which are kept as given: not clipped, not rescaled.

        The logits are their logarithms in float64, with a probability of 0 taken as the smallest normal number: margins
        need finite logits, while every metric reads the probabilities themselves. For post-hoc maps see `floored`.

        >>> p = Predictions.from_probabilities(torch.tensor([[0.8, 0.2]], dtype=torch.float64), torch.tensor([0]))
        >>> p.confidence.tolist()
        [0.8]
        """
        _check_shape("probabilities", probabilities)
        if not probabilities.is_meta:
            check_finite(probabilities, name="probabilities")
            check_probabilities(probabilities)
        logits = probabilities.double().clamp(min=torch.finfo(torch.float64).tiny).log()
        return cls(logits, labels, given_probabilities=probabilities)

    def floored(self, *, least: float = 1e-12) -> "Predictions":
        """The same for a post-hoc map to read: logits of the probabilities given, none of them below `least`.

        A probability that was rounded to 0 has no logarithm, and a temperature would follow whatever stands in for it.
        Predictions from logits are left as they are.

        >>> said = Predictions.from_probabilities(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
        >>> [round(value, 1) for value in said.floored().logits[0].tolist()]
        [0.0, -27.6]
        """
        given = self.given_probabilities
        return self if given is None else Predictions(given.double().clamp(min=least).log(), self.labels)

    @property
    def num_samples(self) -> int:
        """N."""
        return self.logits.shape[0]

    @property
    def num_classes(self) -> int:
        """K."""
        return self.logits.shape[1]

    @property
    def exact(self) -> Tensor:
        """The logits in float64."""
        return self.logits.double()  # [N, K]

    @property
    def probabilities(self) -> Tensor:
        """Softmax of the logits, or the probabilities as given, in float64. Not kept: see `blocks` for large N K."""
        given = self.given_probabilities
        return self.exact.softmax(dim=1) if given is None else given.double()  # [N, K]

    def blocks(self) -> Iterator["Predictions"]:
        """The same samples in order, a cache-sized block of rows at a time."""
        size = 2**18 if self.logits.device.type == "cpu" else 2**24
        rows = max(1, size // self.num_classes)
        for start in range(0, self.num_samples, rows):
            yield self[start : start + rows]

    def __getitem__(self, rows: slice | Tensor) -> "Predictions":
        """Some of the samples, without another check."""
        part = object.__new__(Predictions)
        given = self.given_probabilities
        object.__setattr__(part, "logits", self.logits[rows])
        object.__setattr__(part, "labels", self.labels[rows])
        object.__setattr__(part, "given_probabilities", None if given is None else given[rows])
        return part

    @cached_property
    def _top(self) -> tuple[Tensor, Tensor]:
        if self.given_probabilities is not None:
            top = self.given_probabilities.detach().max(dim=1)
            return top.values.double(), top.indices
        confidence = torch.empty(self.num_samples, dtype=torch.float64, device=self.logits.device)
        predicted = torch.empty(self.num_samples, dtype=torch.int64, device=self.logits.device)
        start = 0
        for block in self.blocks():
            stop = start + block.num_samples
            values = block.logits.detach()
            top = values.max(dim=1)
            below = values.to(torch.float64, copy=True).sub_(top.values[:, None]).exp_()
            torch.sum(below, dim=1, out=confidence[start:stop])  # 1 / sum_k exp(z_k - max z)
            predicted[start:stop] = top.indices
            start = stop
        return confidence.reciprocal_(), predicted

    @property
    def predicted(self) -> Tensor:
        """The most likely class, the lowest index on ties."""
        return self._top[1]  # [N]

    @property
    def confidence(self) -> Tensor:
        """The largest probability."""
        return self._top[0]  # [N]

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


def check_finite(values: Tensor, *, name: str = "logits") -> None:
    """Raise ValueError if any value is NaN or infinite."""
    if bool(values.sum().isfinite()):  # a NaN or an infinity would have spread to the sum
        return
    bad = ~values.isfinite().all(dim=1)
    if bool(bad.any()):
        first = int(bad.nonzero()[0, 0])
        raise ValueError(f"`{name}` must be finite, got NaN or inf in {int(bad.sum())} rows, first in row {first}.")


def check_probabilities(probabilities: Tensor) -> None:
    """Raise ValueError unless every row lies in [0, 1] and sums to one."""
    low, high = (float(bound) for bound in probabilities.aminmax())
    if low < 0 or high > 1:
        raise ValueError(f"`probabilities` must lie in [0, 1], got values from {low:.9g} to {high:.9g}.")
    off = (probabilities.sum(dim=1, dtype=torch.float64) - 1).abs()
    bad = off > _SUM_TOLERANCE
    if bool(bad.any()):
        first = int(bad.nonzero()[0, 0])
        raise ValueError(
            f"`probabilities` must sum to 1 in every row, got {int(bad.sum())} rows that are off by more than "
            f"{_SUM_TOLERANCE:g}, first row {first} by {float(off[first]):.3g}."
        )


def _check_shape(name: str, values: Tensor) -> None:
    if values.ndim != 2 or not values.is_floating_point() or values.dtype.itemsize == 1:
        raise ValueError(
            f"`{name}` must be floating point of shape [N, K], got {values.dtype} of shape {list(values.shape)}."
        )
    if values.shape[0] < 1 or values.shape[1] < 2:
        raise ValueError(f"`{name}` must hold at least 1 sample and 2 classes, got shape {list(values.shape)}.")
