"""Metrics of a stream of samples, from sums that add up."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from surefoot.metrics._ece import FROM_SUMS, mean_absolute_gap
from surefoot.metrics.bins import BinSums, check_num_bins, classwise_sums, top_label_sums
from surefoot.metrics.scores import brier_values, entropy_values, nll_values
from surefoot.predictions import Predictions
from surefoot.registry import unknown

_VALUES: dict[str, Callable[[Predictions], Tensor]] = {
    "accuracy": lambda predictions: predictions.correct.double(),
    "mean_confidence": lambda predictions: predictions.confidence,
    "nll": nll_values,
    "brier": brier_values,
    "entropy": entropy_values,
}
STREAMING = (*_VALUES, *FROM_SUMS, "classwise_ece")


class StreamingMetrics:
    """Metrics of all samples seen so far, in float64, from a state of O(bins x classes) however many they were.

    Equal to the functions of all samples at once, however the samples were split, merged and reduced. Metrics that need
    all samples at once (kernels, smoothing, equal mass, ranks) cannot stream and are refused.

    >>> stream = StreamingMetrics(num_classes=2, metrics=["accuracy", "ece"])
    >>> stream.update(Predictions(torch.tensor([[0.0, 0.0]]), torch.tensor([0])))
    >>> stream.update(Predictions(torch.tensor([[0.0, 0.0]]), torch.tensor([1])))
    >>> {name: value.item() for name, value in stream.compute().items()}
    {'accuracy': 0.5, 'ece': 0.0}
    """

    def __init__(
        self,
        num_classes: int,
        *,
        num_bins: int = 15,
        metrics: Iterable[str] = STREAMING,
        device: torch.device | str = "cpu",
    ) -> None:
        check_num_bins(num_bins)
        self.num_classes, self.num_bins = num_classes, num_bins
        self.metrics = tuple(metrics)
        for name in self.metrics:
            if name not in STREAMING:
                error = unknown("streaming metric", name, STREAMING)
                raise ValueError(f"{error} Others need all samples at once.")
        self._classwise = "classwise_ece" in self.metrics
        self._values = tuple(name for name in _VALUES if name in self.metrics)
        rows = 1 + (num_classes if self._classwise else 0)
        # one vector that adds up, so that one reduction is enough: number of samples, sums of values, sums of bins
        self.state = torch.zeros(1 + len(self._values) + 3 * rows * num_bins, dtype=torch.float64, device=device)

    def update(self, predictions: Predictions) -> None:
        """Take in more samples."""
        if predictions.num_classes != self.num_classes:
            raise ValueError(
                f"`predictions` must have {self.num_classes} classes like the stream, got {predictions.num_classes}."
            )
        parts = [torch.tensor([predictions.num_samples], dtype=torch.float64)]
        parts += [_VALUES[name](predictions).sum()[None] for name in self._values]
        sums = [top_label_sums(predictions, num_bins=self.num_bins)]
        if self._classwise:
            sums.append(classwise_sums(predictions, num_bins=self.num_bins))
        parts += [part.flatten() for each in sums for part in (each.count, each.score, each.hit)]
        self.state += torch.cat([part.to(self.state.device) for part in parts])

    def merge(self, other: "StreamingMetrics") -> None:
        """Take in all samples of another stream of the same kind."""
        mine, theirs = ((s.num_classes, s.num_bins, s.metrics) for s in (self, other))
        if mine != theirs:
            raise ValueError(f"`other` must have the same classes, bins and metrics, got {theirs} for {mine}.")
        self.state += other.state.to(self.state.device)

    def all_reduced(self, group: "torch.distributed.ProcessGroup | None" = None) -> "StreamingMetrics":
        """A stream of the samples of all processes of the group; this one keeps its own."""
        import torch.distributed as dist

        if not (dist.is_available() and dist.is_initialized()):
            raise ValueError("`all_reduced` needs torch.distributed.init_process_group to have been called.")
        whole = StreamingMetrics(
            self.num_classes, num_bins=self.num_bins, metrics=self.metrics, device=self.state.device
        )
        whole.state.copy_(self.state)
        dist.all_reduce(whole.state, group=group)
        return whole

    def compute(self) -> dict[str, Tensor]:
        """Every metric, by name."""
        number = int(self.state[0])
        if number == 0:
            raise ValueError("A stream without samples has no metrics: call `update` first.")
        sums_at = 1 + len(self._values)
        means = dict(zip(self._values, self.state[1:sums_at] / number, strict=True))
        top, rest = self.state[sums_at:].tensor_split([3 * self.num_bins])
        top_sums = _bin_sums(top.view(3, self.num_bins), number)
        values: dict[str, Tensor] = {}
        for name in self.metrics:
            if name == "classwise_ece":
                classes = rest.view(3, self.num_classes, self.num_bins)
                values[name] = mean_absolute_gap(_bin_sums(classes, number)).mean()
            else:
                values[name] = means[name] if name in means else FROM_SUMS[name](top_sums)
        return values

    def reset(self) -> None:
        """Forget all samples."""
        self.state.zero_()


def _bin_sums(parts: Tensor, number: int) -> BinSums:
    count, score, hit = parts
    return BinSums(count, score, hit, number)
