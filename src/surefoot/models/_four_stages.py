"""The residual network of four stages, of which the usual depths are cases."""

from typing import Literal, Protocol

from torch import Tensor, nn

from surefoot.models._images import check_images
from surefoot.models._residual_blocks import initialise_by_fan_out

Stem = Literal["cifar", "imagenet"]


class Block(Protocol):
    """Makes a residual block from `channels` to `expansion` times `width` channels."""

    expansion: int

    def __call__(self, channels: int, width: int, *, stride: int) -> nn.Module: ...


class FourStages(nn.Module):
    """A stem, four stages of blocks with 1, 2, 4 and 8 times `width` channels, then the mean over places.

    Every stage but the first halves the image. Stem "cifar" is a 3 x 3 convolution that keeps the image's size,
    "imagenet" a 7 x 7 one and a max-pooling that halve it twice. He et al. 2016. Kaiming initialisation by fan-out.
    """

    def __init__(
        self,
        *,
        input_shape: tuple[int, ...],
        num_classes: int,
        block: Block,
        num_blocks: tuple[int, int, int, int],
        stem: Stem,
        width: int,
    ) -> None:
        super().__init__()
        check_images(input_shape)
        if stem not in ("cifar", "imagenet"):
            raise ValueError(f"`stem` must be 'cifar' or 'imagenet', got {stem!r}.")
        if width < 1:
            raise ValueError(f"`width` must be at least 1, got {width}.")
        kernel, stride = (3, 1) if stem == "cifar" else (7, 2)
        first = nn.Conv2d(input_shape[0], width, kernel, stride=stride, padding=kernel // 2, bias=False)
        pool = [nn.MaxPool2d(3, stride=2, padding=1)] if stem == "imagenet" else []
        self.stem = nn.Sequential(first, nn.BatchNorm2d(width), nn.ReLU(), *pool)
        blocks: list[nn.Module] = []
        channels = width
        for stage, number in enumerate(num_blocks):
            for place in range(number):
                blocks.append(block(channels, width << stage, stride=2 if stage > 0 and place == 0 else 1))
                channels = (width << stage) * block.expansion
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(channels, num_classes)
        initialise_by_fan_out(self)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits [N, K] of images [N, C, H, W]."""
        logits: Tensor = self.head(self.blocks(self.stem(inputs)).mean(dim=(2, 3)))
        return logits
