"""scikit-learn's handwritten digits, embedded: no download."""

from typing import Literal

import numpy as np
import torch

from surefoot.data import standardisation
from surefoot.data.dataset import Dataset, Split, check_count, check_held_out, with_noisy_labels

_NUM_IMAGES = 1797


def digits(
    *,
    num_train: int = 1200,
    num_validation: int = 0,
    noisy_labels: float = 0.0,
    noise_seed: int = 0,
    images: bool = False,
    standardised: Literal["coordinate", "channel"] = "coordinate",
) -> Dataset:
    """1,797 grey images of 8x8 pixels, 10 classes: `num_train` to train on, the rest to test.

    The order is shuffled once, by a fixed seed, because neighbours in the file come from one writer. `noisy_labels` is
    the share of labels replaced by another class, in training and test alike: a harder task, not a shifted one. The
    last `num_validation` of those to train on are held out for validation instead. `images` keeps the shape [1, 8, 8]
    for networks that need it. Pixels are `standardised` each by its own deviation or all by one: pixels near the
    border hardly vary, so that by their own a stroke there is many deviations away.
    """
    from sklearn.datasets import load_digits

    check_count("num_train", num_train, available=_NUM_IMAGES - 1)
    check_held_out(num_validation, num_train=num_train)
    if standardised not in ("coordinate", "channel"):
        raise ValueError(f"`standardised` must be per coordinate or channel, got {standardised!r}.")
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(_NUM_IMAGES)
    pixels, labels = pixels[order].astype(np.float64), labels[order].astype(np.int64)
    kept = num_train - num_validation
    shape = (1, 8, 8) if images else (64,)
    apart = shape if standardised == "coordinate" else (1,)
    parts = [part.reshape(-1, *apart) for part in (pixels[:kept], pixels[kept:num_train], pixels[num_train:])]
    train, validation, test = (part.view(-1, *shape) for part in standardisation.standardised(*parts))
    scale = standardisation.Standardisation.per_coordinate(parts[0], white=16)
    noisy = torch.from_numpy(with_noisy_labels(labels, share=noisy_labels, num_classes=10, seed=noise_seed))
    return Dataset(
        name="digits",
        num_classes=10,
        train=Split(train, noisy[:kept], scale),
        test=Split(test, noisy[num_train:], scale),
        validation=Split(validation, noisy[kept:num_train], scale) if num_validation else None,
    )
