"""Plain modules from inputs to logits; each takes `input_shape` and `num_classes` beside its own options."""

from collections.abc import Callable

from torch import nn

from surefoot.models.cnn import CNN
from surefoot.models.mlp import MLP
from surefoot.models.resnet import ResNet

MODELS: dict[str, Callable[..., nn.Module]] = {"cnn": CNN, "mlp": MLP, "resnet": ResNet}

__all__ = ["CNN", "MLP", "MODELS", "ResNet"]
