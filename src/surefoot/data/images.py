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
from surefoot.data.dataset import Dataset, Split, check_count, with_noisy_labels

_AT_ONCE = 4096  # images whose squares are summed together
Count = int | Literal["all"]
_SCALES = ("channel", "coordinate")


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
class Scale:
    """The mean and deviation of training images, in units of 0..255, that others are standardised with."""

    mean: Tensor  # [C, 1, 1] or [C, H, W], float64
    std: Tensor

    @classmethod
    def of(cls, images: Tensor, *, per: str = "channel") -> "Scale":
        """Of uint8 images [N, C, H, W], per channel or per coordinate; what never varies is only shifted.

        Sums are of whole numbers and exact.
        """
        if per not in _SCALES:
            raise ValueError(f"`standardised` must be per channel or coordinate, got {per!r}.")
        total = torch.zeros(images.shape[1:], dtype=torch.int64)
        squares = torch.zeros_like(total)
        for start in range(0, len(images), _AT_ONCE):
            wide = images[start : start + _AT_ONCE].to(torch.int32)
            total += wide.sum(dim=0)
            squares += wide.square_().sum(dim=0)
        mean, square = total.double() / len(images), squares.double() / len(images)
        if per == "channel":
            mean, square = (part.mean(dim=(1, 2), keepdim=True) for part in (mean, square))
        std = (square - mean.square()).clamp(min=0).sqrt()
        return cls(mean, torch.where(std < 1e-6, 1.0, std))

    def __call__(self, images: Tensor) -> Tensor:
        """The images [N, C, H, W], standardised, float32."""
        return images.float().sub_(self.mean.float()).div_(self.std.float())


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
    shuffled: bool = False,
    noisy_labels: float = 0.0,
    seed: int = 0,
    standardised: str = "channel",
    corruption: str = "none",
    severity: int = 1,
) -> Dataset:
    """Some of the images as a data set, standardised by the mean and deviation of the training images taken.

    `seed` decides the choice where it is `shuffled`, the labels that are replaced in both parts, and the `corruption`
    of the test images, which are spoiled before they are standardised.
    """
    taken = chosen(images, num_train=num_train, num_test=num_test, shuffled=shuffled, seed=seed)
    train, test = images.train[taken.train], images.test[taken.test]
    if corruption != "none":
        test = corrupted(test, corruption, severity=severity, seed=seed, indices=taken.test)
    labels = np.concatenate([images.train_labels[taken.train], images.test_labels[taken.test]])
    noisy = torch.from_numpy(with_noisy_labels(labels, share=noisy_labels, num_classes=images.num_classes, seed=seed))
    scale = Scale.of(train, per=standardised)
    return Dataset(
        name=images.name,
        num_classes=images.num_classes,
        train=Split(scale(train), noisy[: len(train)]),
        test=Split(scale(test), noisy[len(train) :]),
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
