"""Salt and pepper."""

from torch import Tensor

from surefoot.data.corruptions.corruption import Corruption
from surefoot.data.corruptions.draws import Draws


def impulse_noise(images: Tensor, amount: float, draws: Draws) -> Tensor:
    """Each value, channel by channel, replaced with probability `amount` by 0 or 1, either equally likely."""
    level = round(amount / 2 * 2**32)
    bits = draws.bits(*images.shape[1:])
    spoiled = images.masked_fill(bits < level - 2**31, 0.0)
    return spoiled.masked_fill_(bits >= 2**31 - level, 1.0)


IMPULSE_NOISE = Corruption(
    impulse_noise,
    cifar=(0.01, 0.02, 0.03, 0.05, 0.07),
    tiny=(0.01, 0.02, 0.05, 0.08, 0.14),
    imagenet=(0.03, 0.06, 0.09, 0.17, 0.27),
)
