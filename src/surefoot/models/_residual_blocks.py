"""Residual blocks of He et al. 2016, with a ReLU after the sum."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

Shortcut = Callable[..., nn.Module]  # (channels, width, *, stride) -> the module beside the body


def projection(channels: int, width: int, *, stride: int) -> nn.Module:
    """Make a shortcut: the identity where it fits, else a 1 x 1 convolution and batch norm."""
    if stride == 1 and channels == width:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(channels, width, 1, stride=stride, bias=False), nn.BatchNorm2d(width))


class ResidualBlock(nn.Module):
    """The ReLU of the sum of `body` and `skip`."""

    def __init__(self, body: nn.Module, skip: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.skip = skip

    def forward(self, inputs: Tensor) -> Tensor:
        """Features [N, C', H', W'] of features [N, C, H, W]."""
        return torch.relu(self.body(inputs) + self.skip(inputs))


class BasicBlock(ResidualBlock):
    """Two 3 x 3 convolutions, the first with the stride."""

    expansion = 1

    def __init__(self, channels: int, width: int, *, stride: int, shortcut: Shortcut = projection) -> None:
        body = nn.Sequential(
            nn.Conv2d(channels, width, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )
        super().__init__(body, shortcut(channels, width, stride=stride))


class BottleneckBlock(ResidualBlock):
    """A 1 x 1, a 3 x 3 and a 1 x 1 convolution, the second with the stride."""

    expansion = 4

    def __init__(self, channels: int, width: int, *, stride: int) -> None:
        wide = self.expansion * width
        body = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, wide, 1, bias=False),
            nn.BatchNorm2d(wide),
        )
        super().__init__(body, projection(channels, wide, stride=stride))


def initialise_by_fan_out(model: nn.Module) -> None:
    """Draw the weights of all convolutions by Kaiming's rule for ReLU, with the fan-out."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
