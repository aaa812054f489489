import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from surefoot.data.augment import Augment


def pictures(n: int, side: int = 6) -> Tensor:
    """All values different, none 0."""
    return 1 + torch.arange(n * 2 * side * side, dtype=torch.float64).reshape(n, 2, side, side)


def crops(image: Tensor, padding: int, border: str) -> dict[tuple[int, int, bool], Tensor]:
    """Every crop there can be, one by one."""
    side = image.shape[-1]
    padded = F.pad(image[None], (padding,) * 4, mode="constant" if border == "zero" else "reflect")[0]
    found = {}
    for up in range(2 * padding + 1):
        for left in range(2 * padding + 1):
            crop = padded[:, up : up + side, left : left + side]
            found[up, left, False] = crop
            found[up, left, True] = crop.flip(-1)
    return found


@pytest.mark.parametrize("border", ["zero", "reflect"])
def test_every_image_is_one_of_its_crops_and_every_crop_comes_equally_often(border: str) -> None:
    augment = Augment(padding=2, border=border)
    image = pictures(1)
    wanted = {crop.numpy().tobytes(): key for key, crop in crops(image[0], 2, border).items()}
    assert len(wanted) == 50
    seen = dict.fromkeys(wanted.values(), 0)
    for step in range(20):
        for found in augment(image.expand(500, -1, -1, -1), step=step):
            seen[wanted[found.numpy().tobytes()]] += 1
    for count in seen.values():  # 10,000 draws of 50 kinds
        assert abs(count - 200) < 4.5 * math.sqrt(200)


def test_images_stay_in_their_rows() -> None:
    images = pictures(30)
    for image, found in zip(images, Augment(padding=1)(images, step=3), strict=True):
        assert any(torch.equal(found, crop) for crop in crops(image, 1, "zero").values())


def test_flips_are_exact_and_have_the_asked_share() -> None:
    images = pictures(1).expand(4000, -1, -1, -1)
    found = Augment(padding=0, flip=0.3)(images, step=0)
    mirrored = (found == images.flip(-1)).flatten(1).all(dim=1)
    same = (found == images).flatten(1).all(dim=1)
    assert bool((mirrored ^ same).all())
    assert abs(int(mirrored.sum()) - 1200) < 4 * math.sqrt(4000 * 0.21)
    assert torch.equal(Augment(padding=0, flip=1.0)(images, step=0), images.flip(-1))


def test_cutout_is_one_square_of_zeros_and_the_rest_is_untouched() -> None:
    images = pictures(1, side=8).expand(2000, -1, -1, -1)
    found = Augment(padding=0, flip=0.0, cutout=3)(images, step=0)
    gone = found == 0
    assert torch.equal(found[~gone], images[~gone])
    assert torch.equal(gone[:, 0], gone[:, 1])
    centres = set()
    for hole in gone[:, 0]:
        rows, columns = hole.any(dim=1).nonzero()[:, 0].tolist(), hole.any(dim=0).nonzero()[:, 0].tolist()
        assert int(hole.sum()) == len(rows) * len(columns)
        for span in (rows, columns):
            assert span == list(range(span[0], span[-1] + 1))
            assert len(span) == 3 or (len(span) == 2 and (span[0] == 0 or span[-1] == 7))
        centres.add((rows[0] + rows[-1], columns[0] + columns[-1]))
    assert len(centres) == 64


def test_all_left_out_changes_nothing() -> None:
    images = pictures(5)
    assert torch.equal(Augment(padding=0, flip=0.0)(images, step=9), images)


def test_a_pure_function_of_seed_and_step() -> None:
    images, before = pictures(64), pictures(64)
    state = torch.random.get_rng_state()
    augment = Augment(cutout=2)
    first = augment(images, step=5)
    augment(images, step=6)
    assert torch.equal(augment(images, step=5), first)
    assert not torch.equal(augment(images, step=6), first)
    assert not torch.equal(Augment(cutout=2, seed=1)(images, step=5), first)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(images, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8])
def test_dtype_is_kept(dtype: torch.dtype) -> None:
    images = (pictures(3) % 100).to(dtype)
    found = Augment(cutout=2)(images, step=0)
    assert found.dtype == dtype
    assert found.shape == images.shape


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"border": "wrap"}, "`border` must be zero or reflect, got 'wrap'"),
        ({"flip": 1.5}, r"`flip` must lie in \[0, 1\], got 1.5"),
        ({"padding": -1}, "`padding` must be at least 0, got -1"),
        ({"cutout": -2}, "`cutout` must be at least 0, got -2"),
        ({"seed": -1}, "`seed` must be at least 0, got -1"),
    ],
)
def test_bad_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Augment(**options)


def test_bad_images_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must have the shape \[N, C, H, W\], got \[2, 64\]"):
        Augment()(torch.zeros(2, 64), step=0)
    with pytest.raises(ValueError, match="`padding` must be less than the images' side to reflect them, got 6"):
        Augment(padding=6, border="reflect")(pictures(1), step=0)
