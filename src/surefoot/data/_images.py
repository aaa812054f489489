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
from surefoot.data.data_store import stored_file
from surefoot.data.dataset import Chosen, Dataset, Split, check_count, check_held_out, with_noisy_labels
from surefoot.data.standardisation import Standardisation

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
    by_class: bool = False  # stored class by class: some of them in that order would be whole classes

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

    @classmethod
    def fetched(cls, name: str, *, num_classes: int) -> "Images":
        """Read the images that `surefoot data fetch` stored."""
        path = stored_file(f"{name}.npz", fix=f"Run: surefoot data fetch {name}")
        return cls.read(path, name=name, num_classes=num_classes)


def chosen(
    images: Images, *, num_train: Count, num_test: Count, shuffled: bool, seed: int, num_validation: int = 0
) -> Chosen:
    """The first so many of each part, in the stored order or in one shuffled by `seed`.

    Of images stored class by class some are always drawn: the first would be whole classes.

    The last `num_validation` of those to train on are held out for validation instead.
    """
    random = np.random.default_rng([seed, 1])
    places = []
    for name, count, part in (("num_train", num_train, images.train), ("num_test", num_test, images.test)):
        number = len(part) if count == "all" else count
        check_count(name, number, available=len(part))
        drawn = shuffled or (images.by_class and (number < len(part) or num_validation > 0))
        order = random.permutation(len(part)) if drawn else np.arange(len(part))
        places.append(torch.from_numpy(order[:number]))
    train, test = places
    check_held_out(num_validation, num_train=len(train))
    kept = len(train) - num_validation
    return Chosen(train=train[:kept], test=test, validation=train[kept:])


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
    choice where it is `shuffled`, the labels that are replaced in all parts, and the `corruption` of the test images,
    which are spoiled before they are standardised.
    """
    taken = chosen(
        images, num_train=num_train, num_test=num_test, num_validation=num_validation, shuffled=shuffled, seed=seed
    )
    if corruption == "none" and severity != 1:
        raise ValueError(f"`severity` is {severity}, but `corruption` names none.")
    train_places = torch.cat([taken.train, taken.validation])
    test = images.test[taken.test]
    if corruption != "none":
        test = corrupted(test, corruption, severity=severity, seed=seed, indices=taken.test)
    labels = np.concatenate([images.train_labels[train_places], images.test_labels[taken.test]])
    noisy = torch.from_numpy(with_noisy_labels(labels, share=noisy_labels, num_classes=images.num_classes, seed=seed))
    train_labels, validation_labels, test_labels = torch.split(noisy, [len(taken.train), num_validation, len(test)])
    train = images.train[taken.train]
    scale = Standardisation.of(train, per=standardised)
    return Dataset(
        name=images.name,
        num_classes=images.num_classes,
        train=Split(scale(train), train_labels, scale),
        test=Split(scale(test), test_labels, scale),
        validation=Split(scale(images.train[taken.validation]), validation_labels, scale) if num_validation else None,
        chosen=taken,
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
