"""What a loader gives, as inputs and labels."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

BatchOf = Callable[[Any], tuple[Any, Tensor]]  # a batch -> inputs, labels [N]

_LABELS = ("labels", "label", "targets", "target")
_BY_NAME = ("input_ids", "inputs_embeds", "pixel_values", "input_values", "input_features")  # of Hugging Face models
_FIX = "pass `batch_of=lambda batch: (inputs, labels)`"


def batch_of(batch: Any) -> tuple[Any, Tensor]:
    """Inputs and labels of a batch where there is no doubt which they are; ValueError elsewhere, with what to pass.

    A pair is inputs and labels. In a mapping the labels are called label(s) or target(s); the rest is one tensor, or,
    with `input_ids` and the like among it, what a model takes by name.

    >>> inputs, labels = batch_of({"input_ids": torch.ones(2, 3), "labels": torch.tensor([0, 1])})
    >>> list(inputs), labels.tolist()
    (['input_ids'], [0, 1])
    """
    if isinstance(batch, Mapping):
        named = [key for key in _LABELS if batch.get(key) is not None]
        if not named:
            raise ValueError(
                f"`batch` has no labels among its keys {sorted(map(str, batch))}, and calibration cannot be measured "
                f"without: if they go by another name, {_FIX}."
            )
        rest = {key: value for key, value in batch.items() if key not in _LABELS and isinstance(value, Tensor)}
        if len(named) > 1 or not rest or (len(rest) > 1 and not any(key in rest for key in _BY_NAME)):
            raise ValueError(f"`batch` leaves open what the model takes, with keys {sorted(map(str, batch))}: {_FIX}.")
        return (rest if any(key in rest for key in _BY_NAME) else next(iter(rest.values()))), batch[named[0]]
    if isinstance(batch, tuple | list) and len(batch) == 2:
        return batch[0], batch[1]
    if isinstance(batch, Tensor) or (isinstance(batch, tuple | list) and len(batch) == 1):
        raise ValueError(f"`batch` has no labels, and calibration cannot be measured without: {_FIX}.")
    what = f"{type(batch).__name__} of {len(batch)}" if isinstance(batch, tuple | list) else type(batch).__name__
    raise ValueError(f"`batch` must be a pair of inputs and labels or a mapping with labels, got a {what}: {_FIX}.")


def check_classes(labels: Any) -> Tensor:
    """The labels; ValueError unless they are one class per sample."""
    if not isinstance(labels, Tensor):
        raise ValueError(f"`labels` must be a tensor, got {type(labels).__name__}: {_FIX}.")
    if labels.ndim != 1 or labels.is_floating_point() or labels.dtype == torch.bool:
        raise ValueError(
            f"`labels` must be one class per sample, integers of shape [N], got {labels.dtype} of shape "
            f"{list(labels.shape)}: multi-label and soft targets have no calibration of one predicted class; "
            f"if they are classes in another form, {_FIX}."
        )
    return labels.long()


class Rows:
    """Inputs of a model that takes several tensors, with one row per sample: indexed and joined as one tensor is."""

    def __init__(self, parts: Mapping[str, Tensor] | tuple[Tensor, ...] | list[Tensor]) -> None:
        self.parts: dict[str, Tensor] | list[Tensor] = dict(parts) if isinstance(parts, Mapping) else list(parts)

    def __getitem__(self, rows: slice | Tensor) -> "Rows":
        return self._each(lambda part: part[rows])

    def to(self, device: torch.device) -> "Rows":
        """The same on another device."""
        return self._each(lambda part: part.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Rows":
        if isinstance(self.parts, dict):
            return Rows({key: change(part) for key, part in self.parts.items()})
        return Rows([change(part) for part in self.parts])


def rows_of(inputs: Any) -> "Tensor | Rows":
    """Inputs as they can be indexed; ValueError where they are neither tensors nor hold any."""
    if isinstance(inputs, Tensor | Rows):
        return inputs
    values = list(inputs.values()) if isinstance(inputs, Mapping) else inputs
    if isinstance(values, tuple | list) and values and all(isinstance(value, Tensor) for value in values):
        return Rows(inputs)
    raise ValueError(f"The inputs of a batch must be a tensor, or a mapping or tuple of some: {_FIX}.")


def joined(parts: list["Tensor | Rows"]) -> "Tensor | Rows":
    """The samples of several batches in one."""
    first = parts[0]
    if isinstance(first, Tensor):
        return torch.cat([part for part in parts if isinstance(part, Tensor)])
    try:
        if isinstance(first.parts, dict):
            return Rows({key: torch.cat([part.parts[key] for part in parts]) for key in first.parts})  # type: ignore
        return Rows([torch.cat(list(each)) for each in zip(*(part.parts for part in parts), strict=True)])  # type: ignore
    except RuntimeError as error:
        raise ValueError(
            "Curvature is of all samples of a split at once, and its batches differ in shape: pad them to one length, "
            "or leave curvature out."
        ) from error
