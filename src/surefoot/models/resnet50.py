"""ResNet-50."""

from surefoot.models._four_stages import FourStages, Stem
from surefoot.models._residual_blocks import BottleneckBlock


class ResNet50(FourStages):
    """Four stages of 3, 4, 6 and 3 bottleneck blocks that end in 256, 512, 1024 and 2048 channels. He et al. 2016.

    Where a block halves the image, its 3 x 3 convolution has the stride, as is common since, not its first one.

    >>> sum(p.numel() for p in ResNet50(input_shape=(3, 64, 64), num_classes=10, width=8).parameters())
    376722
    """

    def __init__(
        self, *, input_shape: tuple[int, ...], num_classes: int, stem: Stem = "imagenet", width: int = 64
    ) -> None:
        super().__init__(
            input_shape=input_shape,
            num_classes=num_classes,
            block=BottleneckBlock,
            num_blocks=(3, 4, 6, 3),
            stem=stem,
            width=width,
        )
