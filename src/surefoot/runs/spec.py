"""What a run is: a frozen spec, the same in Python, in TOML and in the run's folder."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_type_hints

from surefoot.registry import unknown
from surefoot.runs.check_options import check_type
from surefoot.runs.toml import read_toml, to_toml
from surefoot.training.schedule import Schedule

Device = Literal["auto", "cpu", "cuda", "mps"]
DEFAULT_OBSERVERS = ("calibration", "margins", "curvature")
_LATER: dict[str, Any] = {
    "reduction": "mean",
    "clip_grad_norm": "none",
    "rate": {"name": "constant"},
    "augment": {"name": "none"},
    "ensemble": {"name": "single"},
    "processes": 1,
    "select": "last",
}


@dataclass(frozen=True)
class Part:
    """A thing from a registry, by name, with its options."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RunSpec:
    """Everything that decides the numbers of a run, and nothing else; equal specs have equal ids.

    >>> RunSpec.from_dict({"optimizer": {"name": "gd", "lr": 0.1}, "budget": 100}).optimizer.options["lr"]
    0.1
    """

    optimizer: Part
    budget: int  # gradients: evaluations of loss and gradient on one batch
    data: Part = Part("digits")
    model: Part = Part("mlp")
    loss: Part = Part("cross_entropy")
    batch_size: int | Literal["full"] = "full"
    reduction: Literal["mean", "sum"] = "mean"  # of the samples' losses
    clip_grad_norm: float | Literal["none"] = "none"
    rate: Part = Part("constant")  # how the learning rate goes over the budget
    augment: Part = Part("none")
    ensemble: Part = Part("single")
    select: Literal["last", "validation nll"] = "last"  # which observed moment's weights are kept beside the last
    seed: int = 0
    device: Device = "auto"
    num_threads: int = 1  # part of the spec because sums over threads round differently
    processes: int = 1  # that share each batch; part of the spec for the same reason
    schedule: Schedule = field(default_factory=Schedule)
    observers: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {name: {} for name in DEFAULT_OBSERVERS})

    def __post_init__(self) -> None:
        for name, low in (("budget", 1), ("seed", 0), ("num_threads", 1), ("processes", 1)):
            if getattr(self, name) < low:
                raise ValueError(f"`{name}` must be at least {low}, got {getattr(self, name)}.")
        for name, high in (("seed", 2**32 - 1), ("num_threads", 256), ("processes", 256)):
            if getattr(self, name) > high:
                raise ValueError(f"`{name}` must be at most {high}, got {getattr(self, name)}.")
        if self.batch_size != "full" and self.batch_size < 1:
            raise ValueError(f'`batch_size` must be at least 1 or "full", got {self.batch_size}.')
        if self.clip_grad_norm != "none" and not self.clip_grad_norm > 0:
            raise ValueError(f'`clip_grad_norm` must be positive or "none", got {self.clip_grad_norm}.')
        lr = self.optimizer.options.get("lr", 1.0)
        if isinstance(lr, int | float) and not (lr > 0 and math.isfinite(lr)):
            raise ValueError(f"`optimizer.lr` must be positive and finite, got {lr}.")

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> "RunSpec":
        """Read the nested form of TOML; unknown keys and wrong types fail here."""
        hints = _hints(cls)  # type: ignore[arg-type]
        values: dict[str, Any] = {}
        for key, value in tree.items():
            if key not in hints:
                raise unknown("key", key, hints)
            if hints[key] is Part:
                values[key] = _part(key, value)
            elif hints[key] is Schedule:
                values[key] = _schedule(value)
            elif key == "observers":
                values[key] = _observers(value)
            else:
                check_type(key, value, hints[key])
                values[key] = value
        for key in ("optimizer", "budget"):
            if key not in values:
                raise ValueError(f"A run spec needs `{key}`.")
        return cls(**values)

    @classmethod
    def from_toml(cls, path: Path) -> "RunSpec":
        """Read a TOML file."""
        return cls.from_dict(read_toml(path))

    def to_dict(self) -> dict[str, Any]:
        """The nested form, every field spelled out."""
        tree: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Part):
                tree[item.name] = {"name": value.name, **value.options}
            elif isinstance(value, Schedule):
                tree[item.name] = asdict(value)
            elif isinstance(value, Mapping):
                tree[item.name] = {name: dict(options) for name, options in value.items()}
                tree[item.name] |= {name: False for name in DEFAULT_OBSERVERS if name not in value}
            else:
                tree[item.name] = value
        return tree

    def to_toml(self) -> str:
        """The same as TOML text."""
        return to_toml(self.to_dict())

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits of the hash of the spec."""
        tree = self.to_dict()
        for key, plain in _LATER.items():  # so that runs made before these keys existed keep their names
            if tree[key] == plain:
                del tree[key]
        canonical = json.dumps(tree, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]

    @property
    def lr(self) -> float:
        """The learning rate; NaN where the spec names none."""
        lr = self.optimizer.options.get("lr")
        return float(lr) if isinstance(lr, int | float) else math.nan

    @property
    def label(self) -> str:
        """A name for people: optimizer, learning rate, loss and ensemble where they are not plain, seed."""
        rate = "" if math.isnan(self.lr) else f" lr={self.lr:.4g}"
        return f"{self.variant}{rate}{self.additions} seed={self.seed}"

    @property
    def additions(self) -> str:
        """What is added to the optimizer: a loss that is not cross-entropy, an ensemble, with their options."""
        parts = [part for part in (self.loss, self.ensemble) if part.name not in ("cross_entropy", "single")]
        return "".join(f" + {_described(part.name, part.options)}" for part in parts)

    @property
    def method(self) -> str:
        """The optimizer, the loss where it is not cross-entropy, the ensemble where there is one; without options."""
        parts = [part.name for part in (self.loss, self.ensemble) if part.name not in ("cross_entropy", "single")]
        return " + ".join([self.optimizer.name, *parts])

    @property
    def method_with_options(self) -> str:
        """The same with all options but the learning rate."""
        return f"{self.variant}{self.additions}"

    @property
    def network(self) -> str:
        """The model with its options, and the data."""
        return f"{_described(self.model.name, self.model.options)} on {self.data.name}"

    @property
    def variant(self) -> str:
        """The optimizer with all its options but the learning rate."""
        return _described(
            self.optimizer.name, {key: value for key, value in self.optimizer.options.items() if key != "lr"}
        )


def _described(name: str, options: Mapping[str, Any]) -> str:
    return " ".join([name, *(f"{key}={value}" for key, value in options.items())])


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _table(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"`{where}` must be a table, got {value!r}.")
    return dict(value)


def _part(where: str, value: Any) -> Part:
    options = _table(where, value)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise ValueError(f"[{where}] needs a `name` that is a string, got {name!r}.")
    return Part(name, options)


def _observers(value: Any) -> dict[str, dict[str, Any]]:
    """The default observers and those named, with their options; `false` in place of options leaves one out."""
    named = {name: {} for name in DEFAULT_OBSERVERS} | _table("observers", value)
    return {name: _table(f"observers.{name}", options) for name, options in named.items() if options is not False}


def _schedule(value: Any) -> Schedule:
    options = _table("schedule", value)
    hints = _hints(Schedule)
    for key, item in options.items():
        if key not in hints:
            raise unknown("key in [schedule]", key, hints)
        check_type(f"schedule.{key}", item, hints[key])
    return Schedule(**options)
