"""Multi-layer perceptron."""

from torch import Tensor, nn

from surefoot.registry import look_up

ACTIVATIONS: dict[str, type[nn.Module]] = {"gelu": nn.GELU, "relu": nn.ReLU, "tanh": nn.Tanh}


class MLP(nn.Module):
    """Flattened inputs through fully connected layers, PyTorch's own initialisation, biases on.

    The defaults are the network of the edge-of-stability literature: two hidden layers of 200 tanh units.

    >>> sum(p.numel() for p in MLP(input_shape=(3, 32, 32), num_classes=10).parameters())
    656810
    """

    def __init__(
        self,
        *,
        input_shape: tuple[int, ...],
        num_classes: int,
        widths: tuple[int, ...] = (200, 200),
        activation: str = "tanh",
    ) -> None:
        super().__init__()
        if any(width < 1 for width in widths):
            raise ValueError(f"`widths` must be at least 1 each, got {list(widths)}.")
        activate = look_up("activation", activation, ACTIVATIONS)
        size = 1
        for length in input_shape:
            size *= length
        layers: list[nn.Module] = [nn.Flatten()]
        for width in widths:
            layers += [nn.Linear(size, width), activate()]
            size = width
        self.layers = nn.Sequential(*layers, nn.Linear(size, num_classes))

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits [N, K] of inputs [N, ...]."""
        logits: Tensor = self.layers(inputs)
        return logits
