"""Optimizers, each stepped as `step(closure) -> loss`."""

import torch
from torch.optim import SGD, AdamW

from surefoot.optim.gd import GD

OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "adamw": AdamW,
    "gd": GD,
    "sgd": SGD,
}

__all__ = ["GD", "OPTIMIZERS", "SGD", "AdamW"]
