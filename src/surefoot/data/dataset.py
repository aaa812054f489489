"""A train and a test set in memory, and a validation set where there is one."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surefoot.data.standardisation import Standardisation
from surefoot.predictions import check_labels


@dataclass(frozen=True, eq=False)
class Split:
    """Inputs and labels, one row per sample."""

    inputs: Tensor  # [N, ...]
    labels: Tensor  # [N], int64
    scale: Standardisation | None = None  # where inputs are standardised images: what brings them back

    def to(self, device: torch.device) -> "Split":
        """The same samples on another device."""
        return Split(self.inputs.to(device), self.labels.to(device), self.scale)


@dataclass(frozen=True, eq=False)
class Chosen:
    """Which images each split has, by their place in the stored order of the training and the test images."""

    train: Tensor  # [N], int64
    test: Tensor
    validation: Tensor  # of the training images; may be empty


@dataclass(frozen=True, eq=False)
class Dataset:
    """Named splits `train`, `test` and maybe `validation` over `num_classes` classes, standardised, float32."""

    name: str
    num_classes: int
    train: Split
    test: Split
    validation: Split | None = None  # for what training itself looks at beside the training set
    chosen: Chosen | None = None  # where the samples lie in the store

    def __post_init__(self) -> None:
        for name, split in self.splits.items():
            if len(split.inputs) != len(split.labels):
                raise ValueError(
                    f"The {name} split of {self.name} has {len(split.inputs)} inputs but {len(split.labels)} labels."
                )
            if len(split.labels) == 0:
                raise ValueError(f"The {name} split of {self.name} is empty.")
            try:
                check_labels(split.labels, num_classes=self.num_classes)
            except ValueError as error:
                raise ValueError(f"In the {name} split of {self.name}: {error}") from None

    @property
    def splits(self) -> dict[str, Split]:
        """Those that there are, by name."""
        validation = {} if self.validation is None else {"validation": self.validation}
        return {"train": self.train, "test": self.test, **validation}

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.train.inputs.shape[1:])

    def to(self, device: torch.device) -> "Dataset":
        """The same data on another device."""
        moved = {name: split.to(device) for name, split in self.splits.items()}
        return replace(self, **moved)  # type: ignore[arg-type]


def check_held_out(num_validation: int, *, num_train: int) -> None:
    """Raise ValueError unless 0 <= num_validation < num_train."""
    if not 0 <= num_validation < num_train:
        raise ValueError(f"`num_validation` must lie in 0..{num_train - 1}, got {num_validation}.")


def with_noisy_labels(labels: NDArray[np.int64], *, share: float, num_classes: int, seed: int) -> NDArray[np.int64]:
    """Labels of which a `share`, rounded to whole samples, are replaced by a uniformly drawn other class."""
    if not 0 <= share <= 1:
        raise ValueError(f"`noisy_labels` must lie in [0, 1], got {share}.")
    random = np.random.default_rng(seed)
    chosen = random.permutation(len(labels))[: round(share * len(labels))]
    shift = random.integers(1, num_classes, size=len(chosen))
    noisy = labels.copy()
    noisy[chosen] = (labels[chosen] + shift) % num_classes
    return noisy


def check_count(name: str, count: int, *, available: int) -> None:
    """Raise ValueError unless 1 <= count <= available."""
    if not 1 <= count <= available:
        raise ValueError(f"`{name}` must lie in 1..{available}, got {count}.")
