"""Data sets as tensors in memory, corruptions and augmentation."""

from collections.abc import Callable

from surefoot.data._cifar10 import cifar10, cifar10_5k
from surefoot.data._cifar100 import cifar100, cifar100_5k
from surefoot.data._digits import digits
from surefoot.data._folder import folder, tiny_imagenet
from surefoot.data._mnist import fashion_mnist, mnist
from surefoot.data._python_text import python_text
from surefoot.data._svhn import svhn, svhn_crops
from surefoot.data.augment import Augment
from surefoot.data.corruptions import CORRUPTIONS, corrupted
from surefoot.data.dataset import Dataset, Split
from surefoot.data.standardisation import Standardisation

DATASETS: dict[str, Callable[..., Dataset]] = {
    "cifar10": cifar10,
    "cifar10-5k": cifar10_5k,
    "cifar100": cifar100,
    "cifar100-5k": cifar100_5k,
    "digits": digits,
    "fashion-mnist": fashion_mnist,
    "folder": folder,
    "mnist": mnist,
    "python-text": python_text,
    "svhn": svhn,
    "tiny-imagenet": tiny_imagenet,
}

__all__ = [
    "CORRUPTIONS",
    "DATASETS",
    "Augment",
    "Dataset",
    "Split",
    "Standardisation",
    "cifar10",
    "cifar10_5k",
    "cifar100",
    "cifar100_5k",
    "corrupted",
    "digits",
    "fashion_mnist",
    "folder",
    "mnist",
    "python_text",
    "svhn",
    "svhn_crops",
    "tiny_imagenet",
]
