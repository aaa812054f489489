"""Salt and pepper."""

import torch
import torch.nn.functional as F
from torch import Tensor

from surefoot.data.corruptions.corruption import Corruption
from surefoot.data.corruptions.draws import Draws


def impulse_noise(images: Tensor, amount: float, draws: Draws) -> Tensor:
    """Each value, channel by channel, replaced with probability `amount` by 0 or 1, either equally likely."""
    lots = draws.bits(*images.shape[1:]).to(images.dtype)  # uniform in [-2^31, 2^31)
    hits = F.hardshrink(lots, (1 - amount) * 2.0**31)  # 0 but for a share `amount`
    return torch.add(images, hits, alpha=2.0**-30)  # which is now far outside, to be cut off


IMPULSE_NOISE = Corruption(
    impulse_noise,
    cifar=(0.01, 0.02, 0.03, 0.05, 0.07),
    tiny=(0.01, 0.02, 0.05, 0.08, 0.14),
    imagenet=(0.03, 0.06, 0.09, 0.17, 0.27),
)
