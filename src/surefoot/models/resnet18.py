"""ResNet-18."""

import torch
from torch import Tensor, nn

from surefoot.models._four_stages import FourStages, Stem, projection


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
            block=_Basic,
            num_blocks=(2, 2, 2, 2),
            stem=stem,
            width=width,
        )


class _Basic(nn.Module):
    expansion = 1

    def __init__(self, channels: int, width: int, *, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.skip = projection(channels, width, stride=stride)

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.relu(self.body(inputs) + self.skip(inputs))
