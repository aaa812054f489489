"""Small convolutional network."""

from torch import Tensor, nn

from surefoot.models._images import check_images


class CNN(nn.Module):
    """A 3 x 3 convolution, batch norm, ReLU and 2 x 2 max-pooling for each of `widths`, then the mean over places.

    Small enough for a CPU, with the batch norm that optimizers of two passes trip over.

    >>> sum(p.numel() for p in CNN(input_shape=(3, 32, 32), num_classes=10).parameters())
    24346
    """

    def __init__(
        self,
        *,
        input_shape: tuple[int, ...],
        num_classes: int,
        widths: tuple[int, ...] = (16, 32, 64),
    ) -> None:
        super().__init__()
        check_images(input_shape)
        if not widths or any(width < 1 for width in widths):
            raise ValueError(f"`widths` must be at least 1 each, got {list(widths)}.")
        if min(input_shape[1:]) < 2 ** len(widths):
            raise ValueError(
                f"Images of {input_shape[1]} x {input_shape[2]} are too small to halve {len(widths)} times."
            )
        layers: list[nn.Module] = []
        channels = input_shape[0]
        for width in widths:
            layers += [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
            layers.append(nn.MaxPool2d(2))
            channels = width
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(channels, num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits [N, K] of inputs [N, channels, height, width]."""
        logits: Tensor = self.head(self.features(inputs))
        return logits
