"""Images as they are stored, and the data set that they become."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surefoot.data.corruptions import corrupted
from surefoot.data.dataset import Dataset, Split, check_count, check_held_out, with_noisy_labels
from surefoot.data.scale import Scale

Count = int | Literal["all"]


@dataclass(frozen=True, eq=False)
class Images:
    """Training and test images with their labels, not standardised."""

    name: str
    num_classes: int
    train: Tensor  # [N, C, H, W], uint8
    train_labels: NDArray[np.int64]  # [N]
    test: Tensor
    test_labels: NDArray[np.int64]

    @classmethod
    def read(cls, path: Path, *, name: str, num_classes: int) -> "Images":
        """From an npz file with uint8 [N, H, W, C] `x_train` and `x_test`, and labels `y_train` and `y_test`."""
        try:
            with np.load(path, allow_pickle=False) as file:
                pixels = [torch.from_numpy(file[key]).permute(0, 3, 1, 2).contiguous() for key in ("x_train", "x_test")]
                labels = [file[key].astype(np.int64) for key in ("y_train", "y_test")]
        except (BadZipFile, KeyError, ValueError, EOFError, RuntimeError, TypeError) as error:
            raise ValueError(f"{path} is not what it should be: {error}.") from None
        return cls(name, num_classes, pixels[0], labels[0], pixels[1], labels[1])


@dataclass(frozen=True, eq=False)
class Chosen:
    """Which images of each part were taken, by their place in the stored order."""

    train: Tensor  # [N], int64
    test: Tensor


def chosen(images: Images, *, num_train: Count, num_test: Count, shuffled: bool, seed: int) -> Chosen:
    """The first so many of each part, in the stored order or in one shuffled by `seed`."""
    random = np.random.default_rng([seed, 1])
    found = []
    for name, count, part in (("num_train", num_train, images.train), ("num_test", num_test, images.test)):
        number = len(part) if count == "all" else count
        check_count(name, number, available=len(part))
        order = random.permutation(len(part)) if shuffled else np.arange(len(part))
        found.append(torch.from_numpy(order[:number]))
    return Chosen(*found)


def dataset(
    images: Images,
    *,
    num_train: Count = "all",
    num_test: Count = "all",
    num_validation: int = 0,
    shuffled: bool = False,
    noisy_labels: float = 0.0,
    seed: int = 0,
    standardised: str = "channel",
    corruption: str = "none",
    severity: int = 1,
) -> Dataset:
    """Some of the images as a data set, standardised by the mean and deviation of the images to train on.

    The last `num_validation` of the training images taken are held out for validation instead. `seed` decides the
    choice where it is `shuffled`, the labels that are replaced in both parts, and the `corruption` of the test images,
    which are spoiled before they are standardised.
    """
    taken = chosen(images, num_train=num_train, num_test=num_test, shuffled=shuffled, seed=seed)
    check_held_out(num_validation, num_train=len(taken.train))
    kept = len(taken.train) - num_validation
    train, test = images.train[taken.train], images.test[taken.test]
    if corruption != "none":
        test = corrupted(test, corruption, severity=severity, seed=seed, indices=taken.test)
    labels = np.concatenate([images.train_labels[taken.train], images.test_labels[taken.test]])
    noisy = torch.from_numpy(with_noisy_labels(labels, share=noisy_labels, num_classes=images.num_classes, seed=seed))
    scale = Scale.of(train[:kept], per=standardised)
    held = Split(scale(train[kept:]), noisy[kept : len(train)], scale)
    return Dataset(
        name=images.name,
        num_classes=images.num_classes,
        train=Split(scale(train[:kept]), noisy[:kept], scale),
        test=Split(scale(test), noisy[len(train) :], scale),
        validation=held if num_validation else None,
    )


def as_dataset(read: Callable[..., Images]) -> Callable[..., Dataset]:
    """A function with the options of `read` and of `dataset`, from names to a data set."""
    own, shared = (inspect.signature(each).parameters for each in (read, dataset))

    @functools.wraps(read)
    def make(**options: Any) -> Dataset:
        images = read(**{name: options.pop(name) for name in own if name in options})
        return dataset(images, **options)

    parameters = [*own.values(), *(each for name, each in shared.items() if name != "images")]
    make.__signature__ = inspect.Signature(parameters, return_annotation=Dataset)  # type: ignore[attr-defined]
    make.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": Dataset}
    return make
