"""What every post-hoc map shares: the record of its fit, how it is applied, how it is kept in a file."""

import json
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from surefoot._version import __version__
from surefoot.files import write_atomically
from surefoot.predictions import Predictions
from surefoot.registry import look_up
from surefoot.scores import check_finite

_BLOCK = 2**18  # logits mapped at a time, so that float64 temporaries stay in cache
LARGEST = 1e100  # larger logits are taken as this: products and differences stay finite


@dataclass(frozen=True)
class Fit:
    """How a map was fitted, and what proves it."""

    num_samples: int
    num_classes: int
    converged: bool
    certificate: float  # distance from optimality, 0 at the optimum: each map's `fit` says which; 0 for closed forms
    num_steps: int  # of the iterative solver, the largest where there are several
    source: str = ""  # what the map was fitted on, for example a file's name


@dataclass(frozen=True, eq=False)
class Map(ABC):
    """A map from logits to logits with the dtype and device of its input, computed in float64, always finite."""

    fitted: Fit = field(kw_only=True)

    @classmethod
    @abstractmethod
    def fit(cls, predictions: Predictions) -> Self:
        """The map of this kind that suits the given predictions best."""

    @abstractmethod
    def _mapped(self, logits: Tensor) -> Tensor:
        """The map of finite float64 logits."""

    def __call__(self, logits: Tensor) -> Tensor:
        if logits.ndim != 2 or not logits.is_floating_point():
            raise ValueError(
                f"`logits` must be floating point of shape [N, K], got {logits.dtype} of shape {list(logits.shape)}."
            )
        num_classes = self.fitted.num_classes
        if logits.shape[1] != num_classes:
            raise ValueError(
                f"`logits` must have {num_classes} classes like the ones the map was fitted on, got {logits.shape[1]}."
            )
        if not logits.is_meta:  # the meta device has shapes but no values
            check_finite(logits)
        largest = torch.finfo(logits.dtype).max
        mapped = torch.empty_like(logits)
        rows = max(1, _BLOCK // num_classes)
        for start in range(0, len(logits), rows):
            part = logits[start : start + rows].double().clamp(-LARGEST, LARGEST)
            mapped[start : start + rows] = self._mapped(part).clamp(-largest, largest)
        return mapped  # [N, K]

    @property
    def parameters(self) -> dict[str, Any]:
        """What was fitted, by name, as numbers and nested lists ready for JSON."""
        return {name: part.tolist() if isinstance(part, Tensor) else part for name, part in self.parts.items()}

    def save(self, path: Path | str) -> None:
        """Write the map as one safetensors file: tensors as tensors, the rest as JSON in the metadata."""
        from surefoot.posthoc import POSTHOC  # the table imports every map

        parts = self.parts
        tensors = {name: part.cpu().contiguous() for name, part in parts.items() if isinstance(part, Tensor)}
        about = {
            "map": next(name for name, kind in POSTHOC.items() if kind is type(self)),
            "surefoot": __version__,
            "fitted": asdict(self.fitted),
            "plain": {name: part for name, part in parts.items() if name not in tensors},
        }
        write_atomically(Path(path), to_bytes(tensors, metadata={"posthoc": json.dumps(about)}))

    @property
    def parts(self) -> dict[str, Any]:
        """What was fitted, by name: tensors and numbers."""
        return {part.name: getattr(self, part.name) for part in fields(self) if part.name != "fitted"}


def load(path: Path | str) -> Map:
    """The map that `Map.save` wrote; ValueError where the file is something else. Never unpickles."""
    from surefoot.posthoc import POSTHOC

    if Path(path).is_dir():
        raise ValueError(f"{path} is a folder, not a saved post-hoc map.")
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["posthoc"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        kind = look_up("post-hoc map", about["map"], POSTHOC)
        calibrator = kind(**tensors, **about["plain"], fitted=Fit(**about["fitted"]))
        probe = calibrator(torch.zeros(1, calibrator.fitted.num_classes))  # parts of a wrong type or shape show here
        if not bool(probe.isfinite().all()):
            raise ValueError("its parameters are not finite")
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError, IndexError) as error:
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise ValueError(f"{path} is not a saved post-hoc map: {reason}.") from None
    return calibrator
