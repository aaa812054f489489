"""Smooth expected calibration error."""

import math

import torch
from torch import Tensor

from surefoot.predictions import Predictions

_NODES_PER_WIDTH = 32
_FEWEST, _MOST = 2**10, 2**20  # cells of the grid


def sm_ece(predictions: Predictions) -> Tensor:
    r"""The fixed point s = int |1/N sum_i K_s(t, c_i) (c_i - a_i)| dt of the gap smoothed by a Gaussian of width s.

    c is the confidence, a whether it was right; the Gaussian is reflected at 0 and 1, every image of every sample
    included. Without bins and continuous in the predictions. Range [0, 1], 0 is calibrated; at least |mean(c - a)|.
    Blasiok and Nakkiran 2024.

    The residuals are spread over a grid fine against the width, where reflection makes smoothing a product of
    cosine coefficients; the error is below a thousandth of the value. O(N).
    """
    residual = predictions.confidence - predictions.correct.double()
    return smooth_error(predictions.confidence, residual / predictions.num_samples)


def smooth_error(points: Tensor, weights: Tensor) -> Tensor:
    """The fixed point for any signed weights at points of [0, 1]."""
    cells = _FEWEST
    while True:
        width = _fixed_point(cosine_spectrum(spread(points, weights, cells=cells)))
        needed = _NODES_PER_WIDTH / max(width, _NODES_PER_WIDTH / _MOST)
        if cells >= min(needed, _MOST):
            return weights.new_tensor(width)
        cells = min(_MOST, 2 ** math.ceil(math.log2(needed)))


def spread(points: Tensor, weights: Tensor, *, cells: int) -> Tensor:
    """Each point's weight shared between the two nearest of the cells + 1 nodes of a grid on [0, 1]."""
    place = points.double() * cells
    left = place.floor().clamp(0, cells - 1)
    share = place - left
    node = left.long()
    out = torch.bincount(node, weights=weights * (1 - share), minlength=cells + 1)
    return out + torch.bincount(node + 1, weights=weights * share, minlength=cells + 1)  # [cells + 1]


def cosine_spectrum(nodes: Tensor) -> Tensor:
    """Fourier coefficients of the weights with all their images, of period 2: mirrored at 0 and at 1."""
    mirrored = torch.cat([nodes, nodes[..., 1:-1].flip(-1)], dim=-1)  # [2 cells]
    mirrored[..., 0] *= 2  # a point on the boundary coincides with its image
    mirrored[..., nodes.shape[-1] - 1] *= 2
    spectrum: Tensor = torch.fft.rfft(mirrored, dim=-1).real  # [cells + 1]; a mirrored sequence has no sine part
    return spectrum


def smooth_field(spectrum: Tensor, width: Tensor) -> Tensor:
    """The weights smoothed to `width`, at the nodes; their sum, ends counted half, is the sum of the weights."""
    cells = spectrum.shape[-1] - 1
    k = torch.arange(cells + 1, dtype=spectrum.dtype, device=spectrum.device)
    variance = (width.square() - 1 / (6 * cells**2)).clamp(min=0)  # spreading over two nodes has smoothed by 1/6 cell^2
    decay = (-0.5 * (math.pi * k).square() * variance).exp()
    field: Tensor = torch.fft.irfft(spectrum * decay, n=2 * cells, dim=-1)[..., : cells + 1]
    return field  # [..., cells + 1]


def mass(field: Tensor) -> Tensor:
    """Integral of the absolute value over [0, 1], by the trapezoidal rule."""
    size = field.abs()
    return size.sum(dim=-1) - 0.5 * (size[..., 0] + size[..., -1])


def _fixed_point(spectrum: Tensor) -> float:
    low, high = 0.0, 1.0  # smoothing more never raises the error, so error(s) - s has one root
    while high - low > 1e-6 * high and high > 1e-9:
        middle = math.sqrt(low * high) if low > 0 else high / 4
        above = float(mass(smooth_field(spectrum, spectrum.new_tensor(middle)))) > middle
        low, high = (middle, high) if above else (low, middle)
    return float(mass(smooth_field(spectrum, spectrum.new_tensor(high)))) if high > 1e-9 else 0.0
