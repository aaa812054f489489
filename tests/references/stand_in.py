"""Files like those of the large data sets, of a few random images."""

from pathlib import Path

import numpy as np
from scipy.io import savemat

NUM_TRAIN = 5008  # of which the studies hold out 5,000


def write_stand_ins(folder: Path, *, num_test: int = 12) -> None:
    """CIFAR-10, CIFAR-100 and the test part of SVHN below `folder`, in their own formats."""
    random = np.random.default_rng(0)
    train = random.integers(0, 256, (NUM_TRAIN, 32, 32, 3), np.uint8)
    test = random.integers(0, 256, (num_test, 32, 32, 3), np.uint8)
    labels, asked = (np.arange(number) % 10 for number in (NUM_TRAIN, num_test))
    np.savez(folder / "cifar10.npz", x_train=train, y_train=labels, x_test=test, y_test=asked)
    for name in ("svhn", "cifar-100-binary"):
        (folder / name).mkdir()
    savemat(folder / "svhn" / "test_32x32.mat", {"X": test.transpose(1, 2, 3, 0), "y": asked[:, None] + 1})
    for part, pixels, fine in (("train", train, labels), ("test", test, asked)):
        planes = pixels.transpose(0, 3, 1, 2).reshape(len(pixels), -1)
        coarse = np.zeros((len(pixels), 1), np.uint8)
        records = np.concatenate([coarse, fine[:, None].astype(np.uint8), planes], axis=1)
        records.tofile(folder / "cifar-100-binary" / f"{part}.bin")
