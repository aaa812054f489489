"""Images that a classifier was never meant for."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from surefoot.data._cifar100 import records
from surefoot.data._svhn import crops
from surefoot.data.data_store import stored_file
from surefoot.registry import look_up


@dataclass(frozen=True)
class _File:
    """A file of the store, the way to read its images, and how to get it."""

    name: str
    read: Callable[[Path], Tensor]  # to uint8 [N, C, H, W]
    fix: str

    @property
    def path(self) -> Path:
        return stored_file(self.name, fix=self.fix)


def turned(own: Tensor) -> Tensor:
    """The own images, turned by a quarter: near to what was learnt, and some digits stay themselves."""
    if own.shape[2] != own.shape[3]:
        raise ValueError(f"Only square images can be turned, got {own.shape[2]}x{own.shape[3]}.")
    return own.rot90(dims=(2, 3)).contiguous()


def shuffled(own: Tensor) -> Tensor:
    """The own images, their pixels in another order, one for all: the same values, and no shape."""
    order = torch.from_numpy(np.random.default_rng(0).permutation(own.shape[2] * own.shape[3]))
    return own.flatten(2)[:, :, order].view_as(own)


def _npz(path: Path) -> Tensor:
    try:
        with np.load(path, allow_pickle=False) as file:
            pixels = file["x_test"]
    except (BadZipFile, KeyError, ValueError, EOFError) as error:
        raise ValueError(f"{path} is not what it should be: {error}.") from None
    if pixels.dtype != np.uint8 or pixels.ndim != 4:
        raise ValueError(f"{path} must hold bytes x_test [N, H, W, C], got {pixels.dtype} {list(pixels.shape)}.")
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous()


_NOT_FETCHED = "Set SUREFOOT_DATA to the folder that holds it; it cannot be fetched."
_MADE = {"shuffled": shuffled, "turned": turned}
_FILES = {
    "cifar10": _File("cifar10.npz", _npz, "Run: surefoot data fetch cifar10"),
    "cifar10-5k": _File("cifar10_5k.npz", _npz, _NOT_FETCHED),
    "cifar100": _File(
        "cifar-100-binary/test.bin",
        lambda path: torch.from_numpy(records(path)[0]),
        "Unpack cifar-100-binary.tar.gz there.",
    ),
    "cifar100-5k": _File("cifar100_5k.npz", _npz, _NOT_FETCHED),
    "fashion-mnist": _File("fashion-mnist.npz", _npz, "Run: surefoot data fetch fashion-mnist"),
    "mnist": _File("mnist.npz", _npz, "Run: surefoot data fetch mnist"),
    "svhn": _File(
        "svhn/test_32x32.mat",
        lambda path: torch.from_numpy(crops(path)[0]),
        "Get it from ufldl.stanford.edu/housenumbers.",
    ),
    "svhn-2k": _File("svhn_test_2k.npz", _npz, _NOT_FETCHED),
}
OUT_OF_DISTRIBUTION: tuple[str, ...] = (*_MADE, *_FILES)


def out_of_distribution_images(name: str, own: Tensor) -> Tensor:
    """The test images of another data set, as many as there are `own` ones or fewer, and like them.

    `own` [N, C, H, W] is uint8 or floating point in [0, 1], and so is what comes back. `name` is one of
    OUT_OF_DISTRIBUTION or the path of an npz file with uint8 `x_test` [N, H, W, C]; `turned` and `shuffled` are made
    from the own images.

    >>> out_of_distribution_images("turned", torch.tensor([[[[1, 2], [3, 4]]]], dtype=torch.uint8)).flatten().tolist()
    [2, 4, 1, 3]
    """
    if name in _MADE:
        return _MADE[name](own)
    source = _source(name)
    images = source.read(source.path)[: len(own)]
    if images.shape[1:] != own.shape[1:]:
        sizes = ["x".join(map(str, part.shape[1:])) for part in (images, own)]
        raise ValueError(f"The foreign set {name} has images of {sizes[0]}, and the data of {sizes[1]}: name another.")
    return images if own.dtype == torch.uint8 else images.to(own.dtype) / 255


def check_out_of_distribution(name: str) -> None:
    """Raise ValueError if the name is not known, FileNotFoundError if its file is not there."""
    if name not in _MADE:
        _ = _source(name).path


def _source(name: str) -> _File:
    if name.endswith(".npz"):
        return _File(str(Path(name).absolute()), _npz, "Name a file that is there.")
    look_up("foreign set", name, dict.fromkeys(OUT_OF_DISTRIBUTION))
    return _FILES[name]
