"""Losses of logits and labels, one value per sample, and objectives of model and batch."""

from collections.abc import Callable

from surefoot.losses.cross_entropy import CrossEntropy
from surefoot.losses.mse import MSE
from surefoot.losses.objective import Batch, Lifted, Loss, Objective

LOSSES: dict[str, Callable[..., Loss]] = {
    "cross_entropy": CrossEntropy,
    "mse": MSE,
}

__all__ = ["LOSSES", "MSE", "Batch", "CrossEntropy", "Lifted", "Loss", "Objective"]
