"""Names in, tensors out."""

from collections.abc import Callable

from surefoot.data.cifar10 import cifar10_5k
from surefoot.data.dataset import Dataset, Split
from surefoot.data.digits import digits
from surefoot.data.predictions_file import read_predictions

DATASETS: dict[str, Callable[..., Dataset]] = {
    "cifar10-5k": cifar10_5k,
    "digits": digits,
}

__all__ = ["DATASETS", "Dataset", "Split", "cifar10_5k", "digits", "read_predictions"]
