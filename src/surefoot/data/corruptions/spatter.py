"""Water or mud on the lens."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surefoot.data.corruptions._corruption import Corruption
from surefoot.data.corruptions._filters import gaussian_blurred
from surefoot.data.corruptions._philox_draws import PhiloxDraws

_WATER = (175, 238, 238)
_MUD = (63, 42, 20)
_LUMA = (0.299, 0.587, 0.114)
_FARTHEST = 20.0  # from an edge of a drop, in pixels
_RELIEF = ((-2, -1, 0), (-1, 1, 1), (0, 1, 2))
_TAN = 0.41421356  # of 22.5 degrees

Constants = tuple[float, float, float, float, float, int]


def spatter(images: Tensor, constants: Constants, draws: PhiloxDraws) -> Tensor:
    """Drops, where normal noise that was blurred exceeds a bound: of water, lit from one side, or of mud.

    `constants`: the noise's mean and deviation, its blur, the bound; then how strong water is, or how far the edges of
    mud are blurred; and 0 for water, 1 for mud.
    """
    mean, deviation, blur, least, amount, kind = constants
    noise = mean + deviation * draws.normal(1, *images.shape[-2:]).double()
    layer = gaussian_blurred(noise, blur)
    layer = torch.where(layer < least, 0.0, layer)
    if kind == 0:
        light = torch.from_numpy(_lit(layer[:, 0].numpy()))[:, None].to(images.dtype)
        return images + amount * light * _colour(_WATER, images)
    cover = gaussian_blurred((layer > least).double(), amount)
    cover = torch.where(cover < 0.8, 0.0, cover).to(images.dtype)
    return images * (1 - cover) + cover * _colour(_MUD, images)


def _colour(colour: tuple[int, int, int], images: Tensor) -> Tensor:
    if images.shape[1] == 3:
        return torch.tensor(colour).to(images).div_(255).view(3, 1, 1)
    grey = sum(share * part for share, part in zip(_LUMA, colour, strict=True)) / 255
    return torch.full((1, 1, 1), grey).to(images)


def _lit(layer: NDArray[np.float64]) -> NDArray[np.float64]:
    """How bright water is, [N, H, W], at most 1: the relief of the distance from the edges of drops, in 8 bits."""
    from scipy.ndimage import distance_transform_edt, uniform_filter

    drops = (layer.clip(0, 1) * 255).astype(np.uint8).astype(np.float64)
    edge = edges(drops, low=50.0, high=150.0)
    far = np.full_like(drops, _FARTHEST)
    if edge.any():
        far = np.minimum(distance_transform_edt(~edge, sampling=(1e6, 1, 1)), _FARTHEST)  # each image for itself
    smooth = (1, 3, 3)
    height = np.floor(uniform_filter(far, smooth, mode="mirror") + 1e-9)
    relief = _shaded(np.stack([equalised(each) for each in height.astype(np.uint8)]))
    light = drops * np.round(uniform_filter(relief, smooth, mode="mirror"))
    brightest: NDArray[np.float64] = np.maximum(light.max(axis=(1, 2), keepdims=True), 1e-12)
    normalised: NDArray[np.float64] = light / brightest
    return normalised


def _shaded(heights: NDArray[np.uint8]) -> NDArray[np.float64]:
    from scipy.ndimage import correlate

    kernel = np.array(_RELIEF, dtype=np.float64)[None]
    shaded: NDArray[np.float64] = correlate(heights.astype(np.float64), kernel, mode="mirror").clip(0, 255)
    return shaded


def equalised(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The image with its histogram spread evenly over 0..255, the least value at 0; one of a single value as it is."""
    counts = np.bincount(image.ravel(), minlength=256)
    first = int(counts[counts > 0][0])
    if first == image.size:
        return image
    spread = np.round((counts.cumsum() - first) * (255 / (image.size - first)))
    mapped: NDArray[np.uint8] = spread.clip(0, 255).astype(np.uint8)[image]
    return mapped


def edges(images: NDArray[np.float64], *, low: float, high: float) -> NDArray[np.bool_]:
    """Canny's edges of images [N, H, W]: ridges of the slope above `low` that touch one above `high`.

    The slope is Sobel's, its size the sum of both parts; ridges are taken across one of four directions.
    """
    from scipy.ndimage import correlate1d, label

    def slope(along: int, across: int) -> NDArray[np.float64]:
        steps = correlate1d(images, [-1.0, 0.0, 1.0], axis=along, mode="nearest")
        gradient: NDArray[np.float64] = correlate1d(steps, [1.0, 2.0, 1.0], axis=across, mode="nearest")
        return gradient

    down, right = slope(1, 2), slope(2, 1)
    size = abs(down) + abs(right)
    padded = np.pad(size, ((0, 0), (1, 1), (1, 1)))
    height, width = size.shape[1:]

    def beside(dy: int, dx: int) -> NDArray[np.float64]:
        return padded[:, 1 + dy : 1 + dy + height, 1 + dx : 1 + dx + width]

    flat, steep = abs(down) < _TAN * abs(right), abs(right) < _TAN * abs(down)
    same = down * right >= 0
    ridges = [
        (size > beside(0, -1)) & (size >= beside(0, 1)),
        (size > beside(-1, 0)) & (size >= beside(1, 0)),
        (size > beside(-1, -1)) & (size > beside(1, 1)),
    ]
    rising = (size > beside(-1, 1)) & (size > beside(1, -1))
    ridge = np.select([flat, steep, same], ridges, rising) & (size > low)
    within = np.zeros((3, 3, 3), dtype=bool)
    within[1] = True  # neighbours in the same image
    parts, _ = label(ridge, structure=within)
    strong = np.unique(parts[ridge & (size > high)])
    return np.isin(parts, strong[strong > 0])


SPATTER = Corruption(
    spatter,
    cifar=(
        (0.62, 0.1, 0.7, 0.7, 0.5, 0),
        (0.65, 0.1, 0.8, 0.7, 0.5, 0),
        (0.65, 0.3, 1, 0.69, 0.5, 0),
        (0.65, 0.1, 0.7, 0.69, 0.6, 1),
        (0.65, 0.1, 0.5, 0.68, 0.6, 1),
    ),
    tiny=(
        (0.62, 0.1, 0.7, 0.7, 0.6, 0),
        (0.65, 0.1, 0.8, 0.7, 0.6, 0),
        (0.65, 0.3, 1, 0.69, 0.6, 0),
        (0.65, 0.1, 0.7, 0.68, 0.6, 1),
        (0.65, 0.1, 0.5, 0.67, 0.6, 1),
    ),
    imagenet=(
        (0.65, 0.3, 4, 0.69, 0.6, 0),
        (0.65, 0.3, 3, 0.68, 0.6, 0),
        (0.65, 0.3, 2, 0.68, 0.5, 0),
        (0.65, 0.3, 1, 0.65, 1.5, 1),
        (0.67, 0.4, 1, 0.65, 1.5, 1),
    ),
)
