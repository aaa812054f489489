"""What every corruption owes, whatever it does to an image."""

import itertools
from importlib.util import find_spec

import pytest
import torch
from sklearn.datasets import load_sample_images
from torch import Tensor

from surefoot.data.corruptions import CORRUPTIONS, corrupted

NAMES = sorted(CORRUPTIONS.keys() - (set() if find_spec("PIL") else {"jpeg_compression"}))
FIXED = {"defocus_blur", "gaussian_blur", "zoom_blur", "brightness", "contrast", "saturate", "pixelate"}
FIXED |= {"jpeg_compression"}
NOT_MONOTONE = {  # by their published constants
    "saturate": "severities 1 and 2 take colour away, the others add it",
    "glass_blur": "severities 3 and 5 differ from 2 and 4 by more blur, which smooths what was shuffled",
    "elastic_transform": "the affine part shrinks as the local part grows",
}


def pictures(n: int = 24, channels: int = 3, side: int = 32) -> Tensor:
    """Random pictures with detail of every size, the finer the fainter, and edges, uint8."""
    generator = torch.Generator().manual_seed(0)
    made = torch.full((n, channels, side, side), 0.5)
    for cells in (2, 4, 8, 16, 32):
        coarse = torch.rand(n, channels, cells, cells, generator=generator) - 0.5
        made += 1.2 / cells * torch.nn.functional.interpolate(coarse, size=(side, side), mode="bicubic")
    made[:, :, side // 3 : side // 2, side // 4 :] *= 0.4
    return (made.clamp(0, 1) * 255).to(torch.uint8)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_shape_dtype_and_range_are_kept(name: str, dtype: torch.dtype) -> None:
    images = pictures() if dtype == torch.uint8 else pictures().to(dtype) / 255
    before = images.clone()
    for severity in range(1, 6):
        found = corrupted(images, name, severity=severity)
        assert found.shape == images.shape
        assert found.dtype == dtype
        assert not torch.equal(found, images)
        if dtype != torch.uint8:
            assert 0 <= float(found.min()) <= float(found.max()) <= 1
    assert torch.equal(images, before)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_the_same_for_an_image_however_it_comes(name: str, dtype: torch.dtype) -> None:
    images = pictures() if dtype == torch.uint8 else pictures().to(dtype) / 255
    global_state = torch.random.get_rng_state()
    for severity in (1, 5):
        whole = corrupted(images, name, severity=severity, seed=7)
        assert torch.equal(whole, corrupted(images, name, severity=severity, seed=7))
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(1))
        parts = [
            corrupted(images[rows], name, severity=severity, seed=7, indices=rows) for rows in order.split([1, 5, 18])
        ]
        assert torch.equal(torch.cat(parts), whole[order])
    assert torch.equal(torch.random.get_rng_state(), global_state)


@pytest.mark.parametrize("name", NAMES)
def test_memory_layout_does_not_matter(name: str) -> None:
    images = pictures(5)
    last = images.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)  # as files hold them
    assert not last.is_contiguous()
    assert torch.equal(corrupted(last, name, severity=3), corrupted(images, name, severity=3))


@pytest.mark.parametrize("name", NAMES)
def test_one_pass_is_many(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = corrupted(pictures(), name, severity=4)
    monkeypatch.setattr("surefoot.data.corruptions._PIXELS_AT_ONCE", 3 * 32 * 32 * 7)
    assert torch.equal(corrupted(pictures(), name, severity=4), whole)


@pytest.mark.parametrize("name", NAMES)
def test_random_ones_change_with_seed_and_index_and_others_do_not(name: str) -> None:
    images = pictures(1).expand(8, -1, -1, -1)
    found = corrupted(images, name, severity=5)
    other = corrupted(images, name, severity=5, seed=1)
    distinct = len({image.numpy().tobytes() for image in torch.cat([found, other])})
    assert distinct == 1 or distinct > 8  # angles that are near share their offsets
    assert (distinct == 1) == (name in FIXED)


def photographs() -> Tensor:
    """Pieces of scikit-learn's photographs, [30, 3, 32, 32] uint8: made-up pictures are too regular for pixelate."""
    pytest.importorskip("PIL", reason="decodes the photographs")
    pieces = []
    for image in load_sample_images().images:
        whole = torch.from_numpy(image.copy()).permute(2, 0, 1).float()
        small = torch.nn.functional.avg_pool2d(whole, 4)
        pieces.append(small.unfold(1, 32, 32).unfold(2, 32, 32).permute(1, 2, 0, 3, 4).reshape(-1, 3, 32, 32))
    return torch.cat(pieces).to(torch.uint8)


@pytest.mark.parametrize("name", NAMES)
def test_more_severe_is_farther_from_the_clean_image(name: str) -> None:
    images = photographs()
    distance = [
        float((corrupted(images, name, severity=severity).float() - images.float()).square().mean())
        for severity in range(1, 6)
    ]
    if name in NOT_MONOTONE:
        assert distance != sorted(distance), "leave it out of NOT_MONOTONE"
    else:
        # motion_blur's severities 3 and 4 differ by taps below 1e-8 and by the angles drawn
        assert all(after > 0.95 * before for before, after in itertools.pairwise(distance))
        assert distance[0] < distance[2] < distance[4]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("channels", "side"), [(1, 28), (1, 8), (3, 64)])
def test_other_sizes(name: str, channels: int, side: int) -> None:
    images = pictures(3, channels, side)
    if name == "saturate" and channels == 1:
        with pytest.raises(ValueError, match="saturate needs images of 3 channels, got 1"):
            corrupted(images, name, severity=1)
        return
    for severity in range(1, 6):
        assert corrupted(images, name, severity=severity).shape == images.shape


@pytest.mark.parametrize("name", NAMES)
def test_every_corruption_has_five_severities_and_a_docstring(name: str) -> None:
    chosen = CORRUPTIONS[name]
    assert len(chosen.cifar) == len(chosen.tiny) == len(chosen.imagenet) == 5
    assert chosen.apply.__doc__


@pytest.mark.parametrize("severity", [0, 6, -1, 2.5])
def test_other_severities_are_refused(severity: float) -> None:
    with pytest.raises(ValueError, match=rf"`severity` must be 1, 2, 3, 4 or 5, got {severity}"):
        corrupted(pictures(), "motion_blur", severity=severity)  # type: ignore[arg-type]


def test_what_cannot_be_spoiled_is_refused() -> None:
    images = pictures()
    with pytest.raises(ValueError, match=r"must have the shape \[N, C, H, W\].*got \[24, 3072\]"):
        corrupted(images.flatten(1), "motion_blur", severity=1)
    with pytest.raises(ValueError, match=r"got values from -1 to 1; corrupt images before they are standardised"):
        corrupted(images.float() / 127.5 - 1, "motion_blur", severity=1)
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\], got values from nan"):
        corrupted(images * torch.nan, "motion_blur", severity=1)
    with pytest.raises(ValueError, match=r"must be uint8 or floating point, got torch\.int64"):
        corrupted(images.long(), "motion_blur", severity=1)
    with pytest.raises(ValueError, match=r"`indices` must be 24 integers of at least 0, got \[3\]"):
        corrupted(images, "motion_blur", severity=1, indices=torch.arange(3))
    with pytest.raises(ValueError, match="`seed` must lie in"):
        corrupted(images, "impulse_noise", severity=1, seed=-1)
    with pytest.raises(ValueError, match="`constants` must be by size, cifar, tiny or imagenet, got 'svhn'"):
        corrupted(images, "impulse_noise", severity=1, constants="svhn")
    with pytest.raises(ValueError, match="Did you mean 'motion_blur'"):
        corrupted(images, "motion-blur", severity=1)
