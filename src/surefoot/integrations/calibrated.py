"""A model and a fitted post-hoc map as one module, ready for `torch.export` and ONNX."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from surefoot.posthoc.map import LARGEST, Map


class MapModule(nn.Module):
    """A fitted post-hoc map as a module, from logits [N, K] to logits [N, K] of the same dtype.

    What was fitted is in float64 buffers, which `half()` and its like leave alone; the computation is in float64, as in
    the map itself. A module in a graph can raise no error about values: a row with a NaN or an infinity gives NaNs.

    >>> from surefoot.posthoc import Temperature
    >>> from surefoot.predictions import Predictions
    >>> sure = Predictions(torch.tensor([[2.0, 0.0]] * 4), torch.tensor([0, 0, 0, 1]))
    >>> MapModule(Temperature.fit(sure))(sure.logits).softmax(dim=1)[0]  # right three times in four
    tensor([0.7500, 0.2500])
    """

    def __init__(self, fitted: Map) -> None:
        super().__init__()
        if not isinstance(fitted, Map):
            raise TypeError(f"`fitted` must be a fitted post-hoc map, got {type(fitted).__name__}.")
        self._map = fitted
        self.num_classes = fitted.fitted.num_classes
        for name, part in fitted.parts.items():
            if not isinstance(part, Tensor | float | int):
                raise TypeError(
                    f"`fitted` must consist of tensors and numbers to be exported, got a {type(part).__name__} "
                    f"as `{name}` of {type(fitted).__name__}."
                )
            self.register_buffer(name, torch.as_tensor(part, dtype=None if isinstance(part, Tensor) else torch.float64))

    def forward(self, logits: Tensor) -> Tensor:
        """The map of the logits."""
        if logits.ndim != 2 or logits.shape[1] != self.num_classes:
            raise ValueError(
                f"`logits` must be of shape [N, {self.num_classes}] like the ones the map was fitted on, "
                f"got {list(logits.shape)}."
            )
        parts: dict[str, Any] = dict(self.named_buffers())
        here = replace(self._map, **parts)
        finite = logits.isfinite().all(dim=1, keepdim=True)
        inside = torch.where(finite, logits, 0.0).double().clamp(-LARGEST, LARGEST)
        largest = torch.finfo(logits.dtype).max
        mapped = here._mapped(inside).clamp(-largest, largest)
        return torch.where(finite, mapped, torch.nan).to(logits.dtype)  # [N, K]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "MapModule":
        before = dict(self.named_buffers())
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, buffer in before.items():  # to another device, but never to another precision
            if self.get_buffer(name).dtype != buffer.dtype:
                setattr(self, name, buffer.to(self.get_buffer(name).device))
        return self

    def extra_repr(self) -> str:
        return f"{type(self._map).__name__}, num_classes={self.num_classes}"


class Calibrated(nn.Module):
    """A model followed by a fitted post-hoc map: inputs to calibrated logits.

    `logits` takes the logits out of what the model returns, where that is not the logits themselves:
    `Calibrated(model, fitted, logits=lambda output: output.logits)`.
    """

    def __init__(self, model: nn.Module, fitted: Map, *, logits: Callable[[Any], Tensor] | None = None) -> None:
        super().__init__()
        self.model, self.map = model, MapModule(fitted)
        self._logits = logits

    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        """The calibrated logits."""
        output = self.model(*inputs, **named)
        logits = output if self._logits is None else self._logits(output)
        if not isinstance(logits, Tensor):
            raise TypeError(
                f"`model` must return logits, got a {type(logits).__name__}: pass `logits`, a function that takes them "
                "out of what the model returns."
            )
        calibrated: Tensor = self.map(logits)
        return calibrated
