"""Random numbers that belong to an image, not to the order in which images come."""

from collections.abc import Iterator
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

_PER_BLOCK = 8  # 32-bit words of one block of Philox-4x64


class PhiloxDraws:
    """Numbers for each image, a pure function of seed, purpose and index: Philox, whose counter is the index.

    Every call is a stream of its own, so the calls of a corruption must come in a fixed order.
    """

    def __init__(self, *, seed: int, purpose: str, indices: Tensor) -> None:
        if not 0 <= seed < 2**64:
            raise ValueError(f"`seed` must lie in 0..2^64-1, got {seed}.")
        self._seed = seed
        self._stream = crc32(purpose.encode()) << 16
        places = indices.tolist()
        starts = [k for k, place in enumerate(places) if k == 0 or place != places[k - 1] + 1]
        stops = [*starts[1:], len(places)]
        self._runs = [(places[start], stop - start) for start, stop in zip(starts, stops, strict=True)]

    def bits(self, *shape: int) -> Tensor:
        """Random int32 of this shape for each image, [N, *shape]."""
        size = int(np.prod(shape, dtype=np.int64))
        blocks = -(-size // _PER_BLOCK)
        self._stream += 1
        parts = []
        for first, number in self._runs:  # neighbours lie end to end: one draw
            start = first * blocks
            philox = np.random.Philox(key=[self._seed, self._stream], counter=[start % 2**64, start >> 64, 0, 0])
            raw = philox.random_raw(number * blocks * _PER_BLOCK // 2).view(np.int32)
            parts.append(torch.from_numpy(raw).view(number, -1)[:, :size])
        drawn = torch.cat(parts) if len(parts) != 1 else parts[0]
        return drawn.reshape(-1, *shape)

    def uniform(self, *shape: int) -> Tensor:
        """Uniform in [0, 1), float32 with 24 random bits."""
        return (self.bits(*shape) >> 8).float().mul_(2.0**-24).add_(0.5)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal, by the inverse of its distribution, so that each takes one uniform number."""
        nearest = 1 - 2.0**-23  # to 1 and -1, where the inverse is not finite
        return self.uniform(*shape).mul_(2).sub_(1).clamp_(-nearest, nearest).erfinv_().mul_(2**0.5)

    def generators(self) -> Iterator[np.random.Generator]:
        """A generator for each image, for draws that take more or fewer numbers by chance."""
        self._stream += 1
        for first, number in self._runs:
            for index in range(first, first + number):
                yield np.random.Generator(np.random.Philox(key=[self._seed, self._stream], counter=[0, 0, 0, index]))

    def angles(self, low: float, high: float) -> Tensor:
        """One angle for each image, uniform between two given in degrees; in radians, float64, [N]."""
        return torch.deg2rad(low + (high - low) * self.uniform(1)[:, 0].double())
