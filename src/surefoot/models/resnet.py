"""Residual network for small images."""

from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.models._images import check_images
from surefoot.models._residual_blocks import BasicBlock, Shortcut, projection


class ResNet(nn.Module):
    """Three stages of basic blocks with 16, 32 and 64 channels, then the mean over places. He et al. 2016, for CIFAR.

    `depth` is 6 n + 2 for n blocks a stage: 8, 20, 56, ... Where a stage halves the image, shortcut "A" skips every
    second pixel and pads channels with zeros, "B" has a 1 x 1 convolution. Kaiming initialisation.

    >>> sum(p.numel() for p in ResNet(input_shape=(3, 32, 32), num_classes=10, depth=20).parameters())
    269722
    """

    def __init__(
        self,
        *,
        input_shape: tuple[int, ...],
        num_classes: int,
        depth: int = 20,
        shortcut: Literal["A", "B"] = "A",
    ) -> None:
        super().__init__()
        if depth < 8 or (depth - 2) % 6:
            raise ValueError(f"`depth` must be 6 n + 2, as in 8, 20 or 56, got {depth}.")
        if shortcut not in _SHORTCUTS:
            raise ValueError(f"`shortcut` must be 'A' or 'B', got {shortcut!r}.")
        check_images(input_shape)
        self.stem = nn.Sequential(
            nn.Conv2d(input_shape[0], 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()
        )
        blocks: list[nn.Module] = []
        channels = 16
        for width in (16, 32, 64):
            for place in range((depth - 2) // 6):
                stride = 2 if place == 0 and width > 16 else 1
                blocks.append(BasicBlock(channels, width, stride=stride, shortcut=_SHORTCUTS[shortcut]))
                channels = width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(64, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits [N, K] of images [N, C, H, W]."""
        logits: Tensor = self.head(self.blocks(self.stem(inputs)).mean(dim=(2, 3)))
        return logits


def _padding(channels: int, width: int, *, stride: int) -> nn.Module:
    return nn.Identity() if stride == 1 and channels == width else _Padded(width - channels, stride)


class _Padded(nn.Module):
    def __init__(self, more: int, stride: int) -> None:
        super().__init__()
        self.more, self.stride = more, stride

    def forward(self, inputs: Tensor) -> Tensor:
        thinned = inputs[:, :, :: self.stride, :: self.stride]
        return F.pad(thinned, (0, 0, 0, 0, self.more // 2, self.more - self.more // 2))


_SHORTCUTS: dict[str, Shortcut] = {"A": _padding, "B": projection}
