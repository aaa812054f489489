"""Plain modules from inputs to logits; each takes `input_shape` and `num_classes` beside its own options."""

from collections.abc import Callable

from torch import nn

from surefoot.models.cnn import CNN
from surefoot.models.mlp import MLP
from surefoot.models.pyramidnet import PyramidNet
from surefoot.models.resnet import ResNet
from surefoot.models.resnet18 import ResNet18
from surefoot.models.resnet50 import ResNet50
from surefoot.models.text_transformer import TextTransformer
from surefoot.models.vit import ViT
from surefoot.models.wide_resnet import WideResNet

MODELS: dict[str, Callable[..., nn.Module]] = {
    "cnn": CNN,
    "mlp": MLP,
    "pyramidnet": PyramidNet,
    "resnet": ResNet,
    "resnet18": ResNet18,
    "resnet50": ResNet50,
    "text_transformer": TextTransformer,
    "vit": ViT,
    "wide_resnet": WideResNet,
}

__all__ = [
    "CNN",
    "MLP",
    "MODELS",
    "PyramidNet",
    "ResNet",
    "ResNet18",
    "ResNet50",
    "TextTransformer",
    "ViT",
    "WideResNet",
]
