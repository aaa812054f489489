"""Our metrics as torchmetrics: `update`, `compute`, `reset`, collections and processes."""

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor

from surefoot.metrics import METRICS
from surefoot.metrics._ece import FROM_SUMS
from surefoot.metrics.streaming import STREAMING, StreamingMetrics
from surefoot.predictions import Predictions
from surefoot.registry import look_up
from surefoot.runs.check_options import options_of

try:
    from torchmetrics import Metric, MetricCollection
except ImportError as error:
    raise ImportError(f"This needs torchmetrics: pip install 'surefoot[torchmetrics]' ({error}).") from None

Given = Literal["logits", "probabilities"]


def metric(name: str, num_classes: int, *, num_bins: int = 15, given: Given = "logits") -> Metric:
    """One of `surefoot.metrics.METRICS` as a torchmetrics.Metric of `update(scores, labels)`, scores [N, K].

    Where sums are enough (`STREAMING`), its state has a fixed size and processes are summed; the others keep every
    sample, as torchmetrics' own calibration error does. `given` says what the scores are: nothing is guessed.

    >>> error = metric("ece", 2)
    >>> error.update(torch.tensor([[0.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 0]))
    >>> error.compute().item()
    0.5
    """
    look_up("metric", name, METRICS)
    if given not in ("logits", "probabilities"):
        raise ValueError(f"`given` must be 'logits' or 'probabilities', got {given!r}.")
    if num_classes < 2:
        raise ValueError(f"`num_classes` must be at least 2, got {num_classes}.")
    kind = Streamed if name in STREAMING else Kept
    return kind(name, num_classes, num_bins=num_bins, given=given)


def collection(
    names: Iterable[str], num_classes: int, *, num_bins: int = 15, given: Given = "logits", prefix: str | None = None
) -> MetricCollection:
    """Several metrics in one `MetricCollection`, which updates the state that some of them share only once."""
    members: dict[str, Metric | MetricCollection] = {
        name: metric(name, num_classes, num_bins=num_bins, given=given) for name in names
    }
    return MetricCollection(members, prefix=prefix)


class _Scored(Metric):
    is_differentiable = False
    full_state_update = False

    def __init__(self, name: str, num_classes: int, *, num_bins: int, given: Given) -> None:
        super().__init__()
        self.metric, self.num_classes, self.num_bins, self.given = name, num_classes, num_bins, given

    @property
    def higher_is_better(self) -> bool | None:  # type: ignore[override]
        """Whether the larger of two values is the better one; None where neither is."""
        return METRICS[self.metric].higher_is_better

    def _predictions(self, scores: Tensor, labels: Tensor) -> Predictions:
        make = Predictions if self.given == "logits" else Predictions.from_probabilities
        predictions: Predictions = make(scores.detach(), labels)
        if predictions.num_classes != self.num_classes:
            raise ValueError(
                f"`{self.given}` must have {self.num_classes} classes like the metric, got {predictions.num_classes}."
            )
        return predictions

    def extra_repr(self) -> str:
        return f"{self.metric!r}, num_classes={self.num_classes}"


class Streamed(_Scored):
    """A metric from sums: its state is one float64 vector, and processes add theirs."""

    def __init__(self, name: str, num_classes: int, *, num_bins: int, given: Given) -> None:
        super().__init__(name, num_classes, num_bins=num_bins, given=given)
        # collections let metrics share states of the same name that are equal after one batch: the name says of what
        self._sums = f"{given}_{'bins' if name in FROM_SUMS else name}"
        self.add_state(self._sums, self._stream().state, dist_reduce_fx="sum")

    def update(self, scores: Tensor, labels: Tensor) -> None:
        """Take in more samples."""
        stream = self._stream(scores.device)
        stream.update(self._predictions(scores, labels))
        before: Tensor = getattr(self, self._sums)
        setattr(self, self._sums, before + stream.state.to(before.device))

    def compute(self) -> Tensor:
        """The metric of all samples so far, in float64."""
        stream = self._stream()
        stream.state = getattr(self, self._sums)
        return stream.compute()[self.metric]

    def _stream(self, device: torch.device | str = "cpu") -> StreamingMetrics:
        return StreamingMetrics(self.num_classes, num_bins=self.num_bins, metrics=[self.metric], device=device)


class Kept(_Scored):
    """A metric of all samples at once: its state is every sample, and processes gather theirs."""

    scores: list[Tensor]
    labels: list[Tensor]

    def __init__(self, name: str, num_classes: int, *, num_bins: int, given: Given) -> None:
        super().__init__(name, num_classes, num_bins=num_bins, given=given)
        self.add_state("scores", [], dist_reduce_fx="cat")
        self.add_state("labels", [], dist_reduce_fx="cat")

    def update(self, scores: Tensor, labels: Tensor) -> None:
        """Take in more samples."""
        predictions = self._predictions(scores, labels)
        given = predictions.given_probabilities
        self.scores.append(predictions.logits if given is None else given)
        self.labels.append(predictions.labels)

    def compute(self) -> Tensor:
        """The metric of all samples so far, in float64."""
        scores, labels = (part if isinstance(part, Tensor) else torch.cat(part) for part in (self.scores, self.labels))
        function: Any = METRICS[self.metric].implementation
        options = {"num_bins": self.num_bins} if "num_bins" in options_of(function) else {}
        value: Tensor = function(self._predictions(scores, labels), **options)
        return value
