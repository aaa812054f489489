"""Salt and pepper."""

import torch
from torch import Tensor

from surefoot.data.corruptions._corruption import Corruption
from surefoot.data.corruptions._philox_draws import PhiloxDraws


def impulse_noise(images: Tensor, amount: float, draws: PhiloxDraws) -> Tensor:
    """Each value, channel by channel, replaced with probability `amount` by 0 or 1 (255), either equally likely."""
    lots = draws.bits(*images.shape[1:]).numpy()  # uniform in [-2^31, 2^31); NumPy compares faster
    most = round((1 - amount) * 2**31)
    white, kept = torch.from_numpy(lots >= most), torch.from_numpy(lots >= -most)
    if images.dtype == torch.uint8:  # a byte of true is 1, whose negative is 255
        return images.maximum(white.view(torch.uint8).neg_()).bitwise_and_(kept.view(torch.uint8).neg_())
    return images.maximum(white.to(images.dtype)).mul_(kept)


IMPULSE_NOISE = Corruption(
    impulse_noise,
    cifar=(0.01, 0.02, 0.03, 0.05, 0.07),
    tiny=(0.01, 0.02, 0.05, 0.08, 0.14),
    imagenet=(0.03, 0.06, 0.09, 0.17, 0.27),
    takes_bytes=True,
)
