"""What a moving camera sees."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from surefoot.data.corruptions._corruption import Corruption
from surefoot.data.corruptions._philox_draws import PhiloxDraws

_CACHED = 1 << 18  # numbers of images that are worked on together: a core's cache holds several such


def motion_blur(images: Tensor, radius_and_sigma: tuple[int, float], draws: PhiloxDraws) -> Tensor:
    """Smeared to one side along a line, at an angle between -45 and 45 degrees, of its own for each image."""
    return smeared(images, taps(*radius_and_sigma), draws.angles(-45, 45))


def smeared(images: Tensor, weights: Tensor, angles: Tensor) -> Tensor:
    """The sum over i of weights[i] times the image shifted by offset i of its angle, the border replicated.

    From the first offset that reaches the image's size on, nothing is added.
    """
    height, width = images.shape[-2:]
    kept = weights[weights > torch.finfo(images.dtype).eps / 4]  # the rest is below what a float resolves
    order = angles.argsort()  # neighbours now share most of their offsets and are shifted together
    size = torch.tensor([width, height])
    moves = offsets(angles[order], num_taps=len(kept)).clamp(-size, size)  # [N, T, 2]
    at_once = max(1, _CACHED // images[:1].numel())
    total = torch.empty_like(images)
    for start in range(0, len(images), at_once):
        chosen = order[start : start + at_once]
        total[chosen] = _shifted(images[chosen], kept.to(images.dtype), moves[start : start + at_once])
    return total


def _shifted(images: Tensor, weights: Tensor, moves: Tensor) -> Tensor:
    """The sum over i of weights[i] times the images shifted by moves [N, T, 2]; neighbours with equal ones at once.

    In padded images laid out in a row a shift is one step along the row, over the border into margins that are cut off.
    """
    height, width = images.shape[-2:]
    left, right, up, down = (max(0, int((sign * moves[..., k]).amax())) for k in (0, 1) for sign in (1, -1))
    padded = F.pad(images, (left, right, up, down), mode="replicate")
    across, each = padded.shape[-1], padded[0].numel()
    spare = max(up, down) * across + max(left, right)
    row = F.pad(padded.flatten(), (spare, spare))
    first, *others = weights.unbind()
    total, weighted = (
        padded.flatten() * first,
        torch.empty(padded.numel(), dtype=images.dtype),
    )  # the first moves nothing
    for tap, weight in enumerate(others, start=1):
        for dx, dy, start, stop in _runs(moves[:, tap]):
            part = weighted[start * each : stop * each]
            if abs(dx) >= width or abs(dy) >= height:
                part.zero_()
            else:
                place = spare + start * each - dy * across - dx
                torch.mul(row[place : place + len(part)], weight, out=part)
        total += weighted  # in one operation with the product, rounding would depend on where vectors end
    return total.view_as(padded)[..., up : up + height, left : left + width]


def _runs(moves: Tensor) -> Iterator[tuple[int, int, int, int]]:
    """dx, dy, start and stop of stretches of equal rows [N, 2]."""
    changes = (moves[1:] != moves[:-1]).any(dim=1).nonzero()[:, 0] + 1
    starts = [0, *changes.tolist()]
    for start, stop, (dx, dy) in zip(starts, [*starts[1:], len(moves)], moves[starts].tolist(), strict=True):
        yield dx, dy, start, stop


def taps(radius: int, sigma: float) -> Tensor:
    """Normalised weights exp(-i^2 / 2 sigma^2) of i = 0..2 radius, float64."""
    weights = (-(torch.arange(2 * radius + 1, dtype=torch.float64) ** 2) / (2 * sigma**2)).exp()
    return weights / weights.sum()


def offsets(angles: Tensor, *, num_taps: int) -> Tensor:
    """Where tap i moves the image: dx = -ceil(i cos(angle) - 1/2) and dy = -ceil(i sin(angle) - 1/2), [N, T, 2]."""
    steps = torch.arange(num_taps, dtype=torch.float64)
    along = torch.stack([angles.cos()[:, None] * steps, angles.sin()[:, None] * steps], dim=2)
    return -(along - 0.5).ceil().long()


MOTION_BLUR = Corruption(
    motion_blur,
    cifar=((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
    tiny=((10, 1), (10, 1.5), (10, 2), (10, 2.5), (12, 3)),
    imagenet=((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
)
