"""MNIST and Fashion-MNIST."""

from surefoot.data._images import Images, as_dataset


@as_dataset
def mnist() -> Images:
    """MNIST: 60,000 training and 10,000 test images 1x28x28 of 10 handwritten digits."""
    return Images.fetched("mnist", num_classes=10)


@as_dataset
def fashion_mnist() -> Images:
    """Fashion-MNIST: 60,000 training and 10,000 test images 1x28x28 of 10 kinds of clothing."""
    return Images.fetched("fashion-mnist", num_classes=10)
