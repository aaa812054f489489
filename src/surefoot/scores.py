"""What a classifier gave each class, for samples whose labels may not be known."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

_SUM_TOLERANCE = 1e-3  # of a row of probabilities: float16 and four printed digits still pass


@dataclass(frozen=True, eq=False)
class Scores:
    """Logits of N samples over K classes, checked once, with what follows from them: predictions without labels.

    Derived quantities are float64 whatever the logits' dtype, so that sums over millions of samples stay exact.
    Probabilities come in by `scores_of_probabilities`; nothing guesses from values which it was given.

    >>> Scores(torch.tensor([[2.0, 0.0], [0.0, 1.0]])).predicted.tolist()
    [0, 1]
    """

    logits: Tensor  # [N, K], pre-softmax; finite
    given_probabilities: Tensor | None = field(default=None, kw_only=True)  # [N, K], where the input was probabilities

    def __post_init__(self) -> None:
        check_shape("logits", self.logits)
        if not self.logits.is_meta:  # the meta device has shapes but no values
            check_finite(self.logits)

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

    def floored_logits(self, *, least: float = 1e-12) -> Tensor:
        """Logits for a post-hoc map: of probabilities given, the logarithms, none of a probability below `least`.

        A probability that was rounded to 0 has no logarithm, and a temperature would follow whatever stands in for it.
        """
        given = self.given_probabilities
        return self.logits if given is None else given.double().clamp(min=least).log()  # [N, K]

    def blocks(self) -> Iterator[Self]:
        """The same samples in order, a cache-sized block of rows at a time."""
        size = 2**18 if self.logits.device.type == "cpu" else 2**24
        rows = max(1, size // self.num_classes)
        for start in range(0, self.num_samples, rows):
            yield self[start : start + rows]

    def __getitem__(self, rows: slice | Tensor) -> Self:
        """Some of the samples, without another check."""
        part = object.__new__(type(self))
        for name in type(self).__dataclass_fields__:
            values = getattr(self, name)
            object.__setattr__(part, name, None if values is None else values[rows])
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


def scores_of_probabilities(probabilities: Tensor) -> Scores:
    """The scores of rows of probabilities, which are kept as given: not clipped, not rescaled."""
    return Scores(logits_of_probabilities(probabilities), given_probabilities=probabilities)


def logits_of_probabilities(probabilities: Tensor) -> Tensor:
    """Logarithms of checked probabilities in float64, of 0 that of the smallest normal number: logits are finite."""
    check_shape("probabilities", probabilities)
    if not probabilities.is_meta:
        check_finite(probabilities, name="probabilities")
        check_probabilities(probabilities)
    return probabilities.double().clamp(min=torch.finfo(torch.float64).tiny).log()


def are_probabilities(values: Tensor) -> bool:
    """Whether all rows lie in [0, 1] and sum to 1, which logits do not by chance."""
    low, high = values.aminmax()
    if low < 0 or high > 1:
        return False
    return bool(((values.sum(dim=1, dtype=torch.float64) - 1).abs() <= _SUM_TOLERANCE).all())


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


def check_shape(name: str, values: Tensor) -> None:
    """Raise ValueError unless the values are floating point [N, K] with at least one sample and two classes."""
    if values.ndim != 2 or not values.is_floating_point() or values.dtype.itemsize == 1:
        raise ValueError(
            f"`{name}` must be floating point of shape [N, K], got {values.dtype} of shape {list(values.shape)}."
        )
    if values.shape[0] < 1 or values.shape[1] < 2:
        raise ValueError(f"`{name}` must hold at least 1 sample and 2 classes, got shape {list(values.shape)}.")
