"""Wide residual network."""

import torch
from torch import Tensor, nn

from surefoot.models._images import check_images
from surefoot.models._residual_blocks import initialise_by_fan_out


class WideResNet(nn.Module):
    """Three groups of pre-activation blocks with 16, 32 and 64 times `width` channels. Zagoruyko and Komodakis 2016.

    `depth` is 6 n + 4 for n blocks a group; WRN-28-10 is the default. A block is batch norm, ReLU, convolution, twice;
    where its shape changes, the shortcut is a 1 x 1 convolution of what the first ReLU gives. `dropout` acts between
    the two convolutions. Kaiming initialisation by fan-out, the head's bias 0.

    >>> sum(p.numel() for p in WideResNet(input_shape=(3, 32, 32), num_classes=10, depth=16, width=1).parameters())
    175066
    """

    def __init__(
        self,
        *,
        input_shape: tuple[int, ...],
        num_classes: int,
        depth: int = 28,
        width: int = 10,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_images(input_shape)
        if depth < 10 or (depth - 4) % 6:
            raise ValueError(f"`depth` must be 6 n + 4, as in 10, 16 or 28, got {depth}.")
        if width < 1:
            raise ValueError(f"`width` must be at least 1, got {width}.")
        if not 0 <= dropout < 1:
            raise ValueError(f"`dropout` must lie in [0, 1), got {dropout}.")
        self.stem = nn.Conv2d(input_shape[0], 16, 3, padding=1, bias=False)
        blocks: list[nn.Module] = []
        channels = 16
        for group in range(3):
            wide = (16 << group) * width
            for place in range((depth - 4) // 6):
                blocks.append(
                    _PreActivationBlock(channels, wide, stride=2 if group > 0 and place == 0 else 1, dropout=dropout)
                )
                channels = wide
        self.blocks = nn.Sequential(*blocks)
        self.last = nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU())
        self.head = nn.Linear(channels, num_classes)
        initialise_by_fan_out(self)
        nn.init.zeros_(self.head.bias)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits [N, K] of images [N, C, H, W]."""
        logits: Tensor = self.head(self.last(self.blocks(self.stem(inputs))).mean(dim=(2, 3)))
        return logits


class _PreActivationBlock(nn.Module):
    def __init__(self, channels: int, width: int, *, stride: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
        )
        self.changes = stride > 1 or channels != width
        self.skip = nn.Conv2d(channels, width, 1, stride=stride, bias=False) if self.changes else nn.Identity()

    def forward(self, inputs: Tensor) -> Tensor:
        active = torch.relu(self.norm(inputs))
        total: Tensor = self.body(active) + self.skip(active if self.changes else inputs)
        return total
