"""JPEG, and back."""

import io

import numpy as np
import torch
from torch import Tensor

from surefoot.data.corruptions._corruption import Corruption
from surefoot.data.corruptions._philox_draws import PhiloxDraws


def jpeg_compression(images: Tensor, quality: int, draws: PhiloxDraws) -> Tensor:
    """Each image, rounded to 8 bits, as it comes back from a JPEG file of that `quality`. Needs the extra `data`.

    Colour is stored at half the resolution, as Pillow does unless told otherwise.
    """
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("The corruption jpeg_compression needs pillow: pip install 'surefoot[data]'.") from None
    if images.shape[1] not in (1, 3):
        raise ValueError(f"jpeg_compression needs images of 1 or 3 channels, got {images.shape[1]}.")
    pixels = (images * 255).round().to("cpu", torch.uint8).permute(0, 2, 3, 1).numpy()  # [N, H, W, C]
    out = np.empty_like(pixels)
    for row, image in zip(out, pixels, strict=True):
        file = io.BytesIO()
        Image.fromarray(image if image.shape[2] == 3 else image[:, :, 0]).save(file, "JPEG", quality=quality)
        with Image.open(file, formats=("JPEG",)) as decoded:
            row[:] = np.asarray(decoded).reshape(row.shape)
    return torch.from_numpy(out).permute(0, 3, 1, 2).to(images).div_(255)


JPEG_COMPRESSION = Corruption(
    jpeg_compression, cifar=(80, 65, 58, 50, 40), tiny=(65, 58, 50, 40, 25), imagenet=(25, 18, 15, 10, 7)
)
