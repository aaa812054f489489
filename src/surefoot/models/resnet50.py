"""ResNet-50."""

import torch
from torch import Tensor, nn

from surefoot.models._four_stages import FourStages, Stem, projection


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
            block=_Bottleneck,
            num_blocks=(3, 4, 6, 3),
            stem=stem,
            width=width,
        )


class _Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, channels: int, width: int, *, stride: int) -> None:
        super().__init__()
        wide = self.expansion * width
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, wide, 1, bias=False),
            nn.BatchNorm2d(wide),
        )
        self.skip = projection(channels, wide, stride=stride)

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.relu(self.body(inputs) + self.skip(inputs))
