"""Losses of logits and labels, one value per sample, and objectives of model and batch."""

from collections.abc import Callable

from surefoot.losses.acls import ACLS
from surefoot.losses.cross_entropy import CrossEntropy
from surefoot.losses.focal import Focal
from surefoot.losses.mse import MSE
from surefoot.losses.objective import Batch, Lifted, Loss, Objective

LOSSES: dict[str, Callable[..., Loss]] = {
    "acls": ACLS,
    "cross_entropy": CrossEntropy,
    "focal": Focal,
    "mse": MSE,
}

__all__ = ["ACLS", "LOSSES", "MSE", "Batch", "CrossEntropy", "Focal", "Lifted", "Loss", "Objective"]
