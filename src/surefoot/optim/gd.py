"""Gradient descent on the full training set."""

from collections.abc import Iterable

import torch
from torch import nn


class GD(torch.optim.SGD):
    """Plain gradient descent: w <- w - lr grad, no momentum. One gradient per step.

    The update is SGD's; the name promises the full batch, which a run therefore insists on. Stable where the sharpness
    stays below 2/lr.
    """

    full_batch = True

    def __init__(self, params: Iterable[nn.Parameter], lr: float) -> None:
        super().__init__(params, lr=lr)
