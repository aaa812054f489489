"""Data sets that `surefoot data fetch` stores."""

from surefoot.data._images import Images, as_dataset
from surefoot.data.store import stored


def fetched_images(name: str) -> Images:
    """The images as stored."""
    path = stored(f"{name}.npz", fix=f"Run: surefoot data fetch {name}")
    return Images.read(path, name=name, num_classes=10)


@as_dataset
def cifar10() -> Images:
    """CIFAR-10: 50,000 training and 10,000 test images 3x32x32 of 10 classes, in canonical order unless `shuffled`."""
    return fetched_images("cifar10")


@as_dataset
def fashion_mnist() -> Images:
    """Fashion-MNIST: 60,000 training and 10,000 test images 1x28x28 of 10 kinds of clothing."""
    return fetched_images("fashion-mnist")


@as_dataset
def mnist() -> Images:
    """MNIST: 60,000 training and 10,000 test images 1x28x28 of 10 handwritten digits."""
    return fetched_images("mnist")
