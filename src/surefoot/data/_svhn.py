"""Street View House Numbers."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from surefoot.data._images import Images, as_dataset
from surefoot.data.data_store import folder_in_store, stored_file
from surefoot.data.dataset import Split, check_count
from surefoot.data.standardisation import Standardisation


@as_dataset
def svhn(*, path: str) -> Images:
    """SVHN: 73,257 training and 26,032 test crops 3x32x32 of digits, from the .mat files in the folder `path`.

    train_32x32.mat and test_32x32.mat; the label 10 stands for 0.
    """
    (train, train_labels), (test, test_labels) = (
        crops(folder_in_store(path) / f"{part}_32x32.mat") for part in ("train", "test")
    )
    return Images("svhn", 10, torch.from_numpy(train), train_labels, torch.from_numpy(test), test_labels)


def svhn_crops(scale: Standardisation, *, num_test: int = 2000) -> Split:
    """2,000 test crops as samples foreign to another data set, whose `scale` they are standardised with.

    From svhn_test_2k.npz in the data folder. Non-commercial use only.
    """
    path = stored_file("svhn_test_2k.npz", fix="Set SUREFOOT_DATA to the folder that holds it; it cannot be fetched.")
    with np.load(path, allow_pickle=False) as file:
        pixels, labels = file["x_test"], file["y_test"].astype(np.int64)
    check_count("num_test", num_test, available=len(pixels))
    images = torch.from_numpy(pixels[:num_test]).permute(0, 3, 1, 2)
    return Split(scale(images), torch.from_numpy(labels[:num_test]), scale)


def crops(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images [N, C, H, W] and labels of one of the .mat files."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    if not path.is_file():
        raise FileNotFoundError(
            f"There is no {path}: get it from ufldl.stanford.edu/housenumbers; `path` is its folder."
        )
    try:
        content = loadmat(path, variable_names=["X", "y"])
        pixels, labels = content["X"], content["y"]
    except (MatReadError, ValueError, TypeError, KeyError, NotImplementedError) as error:
        raise ValueError(f"{path} is not what it should be: {error}.") from None
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[3] != labels.size:
        raise ValueError(f"{path} must hold bytes X [H, W, C, N] and y [N], got {pixels.dtype} {list(pixels.shape)}.")
    return np.ascontiguousarray(pixels.transpose(3, 2, 0, 1)), labels.ravel().astype(np.int64) % 10
