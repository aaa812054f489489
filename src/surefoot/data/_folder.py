"""Pictures in folders, a folder for each class."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surefoot.data._images import Images, as_dataset
from surefoot.data.data_store import folder_in_store

_ENDINGS = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".webp"})
_MOST = 2**32  # bytes of memory

Labelled = list[tuple[Path, int]]


@as_dataset
def folder(*, path: str, side: int = 64) -> Images:
    """Pictures from `path`/train/CLASS/... and `path`/val/CLASS/... (or test), as 3 x side x side, all in memory.

    Each is scaled so that its shorter side is `side` and the middle is kept. Classes are numbered by name, files taken
    in the order of their names. Needs the extra `data`.
    """
    root = folder_in_store(path)
    held_out = next((root / name for name in ("val", "test") if (root / name).is_dir()), root / "val")
    classes = _folders(root / "train")
    if (other := _folders(held_out)) != classes:
        strange = sorted(set(classes) ^ set(other))
        raise ValueError(
            f"{held_out} must have the classes of {root / 'train'}; only one has {', '.join(strange[:3])}."
        )
    parts = [
        [(file, number) for number, name in enumerate(classes) for file in _pictures(place / name)]
        for place in (root / "train", held_out)
    ]
    return _images("folder", classes, parts, side)


@as_dataset
def tiny_imagenet(*, path: str, side: int = 64) -> Images:
    """Tiny-ImageNet: 100,000 training and 10,000 validation pictures 3x64x64 of 200 classes, unpacked at `path`.

    Training files lie in train/CLASS/images, the classes of val/images in val/val_annotations.txt.
    """
    root = folder_in_store(path)
    classes = _folders(root / "train")
    number = {name: k for k, name in enumerate(classes)}
    train = [(file, number[name]) for name in classes for file in _pictures(root / "train" / name / "images")]
    notes = root / "val" / "val_annotations.txt"
    if not notes.is_file():
        raise FileNotFoundError(f"There is no {notes}: `path` must be the folder of Tiny-ImageNet.")
    lines = [line.split("\t") for line in notes.read_text().splitlines()]
    if strange := {line[1] for line in lines} - number.keys():
        raise ValueError(f"{notes} names classes that train does not have: {', '.join(sorted(strange)[:3])}.")
    test = [(root / "val" / "images" / line[0], number[line[1]]) for line in lines]
    return _images("tiny-imagenet", classes, [train, test], side)


def decoded(files: Iterable[Path], *, side: int) -> Tensor:
    """Pictures as uint8 [N, 3, side, side]: the shorter side scaled to `side`, the middle kept."""
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError:
        raise ImportError("Folders of pictures need pillow: pip install 'surefoot[data]'.") from None
    paths = list(files)
    out = np.empty((len(paths), side, side, 3), dtype=np.uint8)
    for row, path in zip(out, paths, strict=True):
        try:
            with Image.open(path) as picture:
                row[:] = np.asarray(ImageOps.fit(picture.convert("RGB"), (side, side), Image.Resampling.BILINEAR))
        except (UnidentifiedImageError, OSError, ValueError) as error:
            raise ValueError(f"{path} is not a picture that can be read: {error}.") from None
    return torch.from_numpy(out).permute(0, 3, 1, 2)


def _images(name: str, classes: list[str], parts: list[Labelled], side: int) -> Images:
    if side < 1:
        raise ValueError(f"`side` must be at least 1, got {side}.")
    needed = sum(len(part) for part in parts) * 3 * side**2
    if needed > _MOST:
        raise ValueError(f"`side` must be smaller: {needed:,} bytes of pictures are more than {_MOST:,}, got {side}.")
    (train, train_labels), (test, test_labels) = (
        (decoded((f for f, _ in part), side=side), _labels(part)) for part in parts
    )
    return Images(name, len(classes), train, train_labels, test, test_labels, by_class=True)


def _labels(part: Labelled) -> NDArray[np.int64]:
    return np.array([label for _, label in part], dtype=np.int64)


def _folders(place: Path) -> list[str]:
    if not place.is_dir():
        raise FileNotFoundError(f"There is no folder {place}.")
    names = sorted(each.name for each in place.iterdir() if each.is_dir() and not each.name.startswith("."))
    if len(names) < 2:
        raise FileNotFoundError(f"{place} must have a folder for each of at least 2 classes, got {len(names)}.")
    return names


def _pictures(place: Path) -> list[Path]:
    pictures = sorted(each for each in place.iterdir() if each.suffix.lower() in _ENDINGS) if place.is_dir() else []
    if not pictures:
        raise FileNotFoundError(f"There are no pictures in {place}.")
    return pictures
