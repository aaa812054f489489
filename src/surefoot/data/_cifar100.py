"""CIFAR-100."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from surefoot.data._images import Images, as_dataset
from surefoot.data.data_store import folder_in_store, stored_file

_RECORD = 2 + 3 * 32 * 32  # coarse label, fine label, planes of red, green, blue


@as_dataset
def cifar100(*, path: str) -> Images:
    """CIFAR-100: 50,000 training and 10,000 test images 3x32x32, from the binary version unpacked at `path`.

    That is the folder with train.bin and test.bin. Fine labels.
    """
    (train, train_labels), (test, test_labels) = (
        records(folder_in_store(path) / f"{part}.bin") for part in ("train", "test")
    )
    return Images("cifar100", 100, torch.from_numpy(train), train_labels, torch.from_numpy(test), test_labels)


@as_dataset
def cifar100_5k() -> Images:
    """5,000 training and 5,000 test images of CIFAR-100, fine labels, from cifar100_5k.npz in the data folder."""
    fix = "Set SUREFOOT_DATA to the folder that holds it; it cannot be fetched."
    return Images.read(stored_file("cifar100_5k.npz", fix=fix), name="cifar100-5k", num_classes=100)


def records(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images [N, C, H, W] and fine labels of one of the .bin files."""
    if not path.is_file():
        raise FileNotFoundError(f"There is no {path}: unpack cifar-100-binary.tar.gz and name its folder with `path`.")
    values = np.fromfile(path, np.uint8)
    if not values.size or values.size % _RECORD:
        raise ValueError(f"{path} must hold records of {_RECORD} bytes, got {values.size} bytes.")
    rows = values.reshape(-1, _RECORD)
    return rows[:, 2:].reshape(-1, 3, 32, 32), rows[:, 1].astype(np.int64)
