"""What is seen through frosted glass."""

import torch
from torch import Tensor

from surefoot.data.corruptions._corruption import Corruption
from surefoot.data.corruptions._filters import gaussian_blurred
from surefoot.data.corruptions._philox_draws import PhiloxDraws


def glass_blur(images: Tensor, sigma_reach_rounds: tuple[float, int, int], draws: PhiloxDraws) -> Tensor:
    """Blurred, then each pixel replaced by a neighbour drawn at random, some rounds, then blurred again.

    Pixels are visited from the last to the first, so that a neighbour may have been replaced before. The neighbour lies
    `-reach` to `reach - 1` away in each direction. The script that this follows means to swap the two, but its
    assignment overwrites one before it is read.
    """
    sigma, reach, rounds = sigma_reach_rounds
    n, _, height, width = images.shape
    shown = torch.arange(height * width).repeat(n, 1)  # [N, H W], the pixel that each place shows
    for _ in range(rounds):
        moves = (draws.uniform(2, height, width) * (2 * reach)).long() - reach
        for row in range(height - reach, reach, -1):
            for column in range(width - reach, reach, -1):
                above, before = row + moves[:, 0, row, column], column + moves[:, 1, row, column]
                shown[:, row * width + column] = shown.gather(1, (above * width + before)[:, None])[:, 0]
    blurred = gaussian_blurred(images, sigma).flatten(2)
    moved = blurred.gather(2, shown[:, None].expand(-1, images.shape[1], -1)).view_as(images)
    return gaussian_blurred(moved, sigma)


GLASS_BLUR = Corruption(
    glass_blur,
    cifar=((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    tiny=((0.1, 1, 1), (0.5, 1, 1), (0.6, 1, 2), (0.7, 2, 1), (0.9, 2, 2)),
    imagenet=((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
)
