"""CIFAR-10, all of it or the first 5,000 training and 5,000 test images."""

import os
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch

from surefoot.data._images import Images, as_dataset
from surefoot.data.dataset import Chosen, Dataset, Split, check_count, check_held_out
from surefoot.data.standardisation import Standardisation, standardised

FILE = "cifar10_5k.npz"


@as_dataset
def cifar10() -> Images:
    """CIFAR-10: 50,000 training and 10,000 test images 3x32x32 of 10 classes, in canonical order unless `shuffled`."""
    return Images.fetched("cifar10", num_classes=10)


def cifar10_5k(*, num_train: int = 5000, num_test: int = 5000, num_validation: int = 0) -> Dataset:
    """The first `num_train` and `num_test` images in canonical order, 3x32x32, standardised per coordinate.

    The last `num_validation` of those to train on are held out for validation instead.
    Read from `cifar10_5k.npz` (uint8 NHWC arrays `x_train`, `y_train`, `x_test`, `y_test`) in the folder that the
    environment variable SUREFOOT_DATA names.
    """
    check_count("num_train", num_train, available=5000)
    check_count("num_test", num_test, available=5000)
    check_held_out(num_validation, num_train=num_train)
    path = data_folder() / FILE
    try:
        with np.load(path, allow_pickle=False) as archive:
            pixels = [archive["x_train"][:num_train], archive["x_test"][:num_test]]
            labels = [archive["y_train"][:num_train], archive["y_test"][:num_test]]
    except (BadZipFile, KeyError, ValueError, EOFError) as error:
        raise ValueError(f"{path} is not what it should be: {error}.") from None
    train_pixels, test_pixels = (part.transpose(0, 3, 1, 2).astype(np.float64) / 255 for part in pixels)
    kept = num_train - num_validation
    train, validation, test = standardised(train_pixels[:kept], train_pixels[kept:], test_pixels)
    scale = Standardisation.per_coordinate(train_pixels[:kept], unit=255)
    train_labels, test_labels = (torch.from_numpy(part.astype(np.int64)) for part in labels)
    return Dataset(
        name="cifar10-5k",
        num_classes=10,
        train=Split(train, train_labels[:kept], scale),
        test=Split(test, test_labels, scale),
        validation=Split(validation, train_labels[kept:], scale) if num_validation else None,
        chosen=Chosen(train=torch.arange(kept), test=torch.arange(num_test), validation=torch.arange(kept, num_train)),
    )


def data_folder() -> Path:
    """The folder of SUREFOOT_DATA, checked to hold the file."""
    named = os.environ.get("SUREFOOT_DATA", "")
    if not named or not (Path(named) / FILE).is_file():
        where = f"not in {named!r}" if named else "SUREFOOT_DATA is not set"
        raise FileNotFoundError(f"cifar10-5k needs {FILE}: {where}. Set SUREFOOT_DATA to the folder that holds it.")
    return Path(named)
