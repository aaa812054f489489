"""ResNet-18."""

from surefoot.models._four_stages import FourStages, Stem
from surefoot.models._residual_blocks import BasicBlock


class ResNet18(FourStages):
    """Four stages of two basic blocks with 64, 128, 256 and 512 channels. He et al. 2016.

    >>> sum(p.numel() for p in ResNet18(input_shape=(3, 32, 32), num_classes=10, width=8).parameters())
    176402
    """

    def __init__(
        self, *, input_shape: tuple[int, ...], num_classes: int, stem: Stem = "cifar", width: int = 64
    ) -> None:
        super().__init__(
            input_shape=input_shape,
            num_classes=num_classes,
            block=BasicBlock,
            num_blocks=(2, 2, 2, 2),
            stem=stem,
            width=width,
        )
