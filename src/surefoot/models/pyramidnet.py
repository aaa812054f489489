"""Pyramidal residual network."""

from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.models._images import check_images
from surefoot.models._residual_blocks import initialise_by_fan_out


class PyramidNet(nn.Module):
    """Residual blocks of which each has a few channels more than the last, `alpha` more in all. Han et al. 2017.

    `depth` is 6 n + 2 for n basic blocks in each of three stages; PyramidNet-110-270 is the default. A block is batch
    norm, convolution, batch norm, ReLU, convolution, batch norm, with no ReLU after the sum. Shortcuts have no weights:
    the mean over 2 x 2 places where the image is halved, zeros for channels that are new. Kaiming by fan-out.

    >>> sum(p.numel() for p in PyramidNet(input_shape=(3, 32, 32), num_classes=10, depth=8, alpha=6).parameters())
    21750
    """

    def __init__(self, *, input_shape: tuple[int, ...], num_classes: int, depth: int = 110, alpha: int = 270) -> None:
        super().__init__()
        check_images(input_shape)
        if depth < 8 or (depth - 2) % 6:
            raise ValueError(f"`depth` must be 6 n + 2, as in 8, 20 or 110, got {depth}.")
        if alpha < 0:
            raise ValueError(f"`alpha` must be at least 0, got {alpha}.")
        self.stem = nn.Sequential(nn.Conv2d(input_shape[0], 16, 3, padding=1, bias=False), nn.BatchNorm2d(16))
        number = (depth - 2) // 6
        blocks: list[nn.Module] = []
        channels = 16
        for place in range(3 * number):
            width = round(16 + alpha * (place + 1) / (3 * number))
            blocks.append(_PyramidBlock(channels, width, stride=2 if place in (number, 2 * number) else 1))
            channels = width
        self.blocks = nn.Sequential(*blocks)
        self.last = nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU())
        self.head = nn.Linear(channels, num_classes)
        initialise_by_fan_out(self)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits [N, K] of images [N, C, H, W]."""
        logits: Tensor = self.head(self.last(self.blocks(self.stem(inputs))).mean(dim=(2, 3)))
        return logits


class _PyramidBlock(nn.Module):
    def __init__(self, channels: int, width: int, *, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(channels),
            nn.Conv2d(channels, width, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.skip: nn.Module = nn.AvgPool2d(2, ceil_mode=True) if stride == 2 else nn.Identity()
        self.more = width - channels

    def forward(self, inputs: Tensor) -> Tensor:
        total: Tensor = self.body(inputs) + F.pad(self.skip(inputs), (0, 0, 0, 0, 0, self.more))
        return total
