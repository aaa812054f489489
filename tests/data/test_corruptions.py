import json
import math
from pathlib import Path

import pytest
import torch

from references.corruptions import correlated, motion_blur
from surefoot.data.corruptions import CORRUPTIONS, corrupted
from surefoot.data.corruptions.defocus_blur import disk
from surefoot.data.corruptions.draws import Draws
from surefoot.data.corruptions.filters import filtered
from surefoot.data.corruptions.motion_blur import offsets, smeared, taps

GOLDEN = json.loads((Path(__file__).parents[1] / "references" / "golden_losses.json").read_text())
CONSTANTS = {
    "motion_blur": GOLDEN["cifar_c_motion_blur_taps"],
    "defocus_blur": GOLDEN["cifar_c_defocus_kernels"],
}


@pytest.mark.parametrize("severity", range(1, 6))
def test_disk_is_the_golden_kernel(severity: int) -> None:
    golden = GOLDEN["cifar_c_defocus_kernels"][f"sev{severity}"]
    wanted = torch.tensor(golden["kernel"], dtype=torch.float64)
    radius, sigma = CORRUPTIONS["defocus_blur"].cifar[severity - 1]
    assert (radius, sigma) == (golden["radius"], golden["alias_blur"])
    found = disk(radius, sigma)
    edge = (len(found) - len(wanted)) // 2
    torch.testing.assert_close(found, torch.nn.functional.pad(wanted, (edge,) * 4), rtol=0, atol=6e-9)


@pytest.mark.parametrize("severity", range(1, 6))
def test_taps_are_the_golden_ones(severity: int) -> None:
    golden = GOLDEN["cifar_c_motion_blur_taps"][f"sev{severity}"]
    radius, sigma = CORRUPTIONS["motion_blur"].cifar[severity - 1]
    assert (radius, sigma) == (golden["radius"], golden["sigma"])
    assert len(taps(radius, sigma)) == golden["width"]
    wanted = torch.tensor(golden["taps"], dtype=torch.float64)
    torch.testing.assert_close(taps(radius, sigma), wanted, rtol=0, atol=6e-9)


def test_offsets_are_the_golden_ones() -> None:
    golden = GOLDEN["cifar_c_motion_blur_offsets_example"]
    angle = torch.deg2rad(torch.tensor([golden["angle_deg"]], dtype=torch.float64))
    assert offsets(angle, num_taps=golden["width"])[0].tolist() == golden["(dx,dy) per tap"]


@pytest.mark.parametrize("shape", [(3, 9, 12), (1, 5, 5)])  # on the smaller, taps reach beyond the image
def test_smeared_is_the_slow_motion_blur(shape: tuple[int, int, int]) -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(6, *shape, generator=generator, dtype=torch.float64)
    angles = math.pi * (2 * torch.rand(6, generator=generator, dtype=torch.float64) - 1)
    found = smeared(images, taps(6, 2), angles)
    for image, angle, got in zip(images, angles.tolist(), found, strict=True):
        torch.testing.assert_close(got, motion_blur(image, 6, 2, angle))


def test_filtered_is_the_slow_correlation() -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(2, 3, 8, 9, generator=generator, dtype=torch.float64)
    kernel = torch.rand(5, 5, generator=generator, dtype=torch.float64)  # not symmetric: a convolution would differ
    for image, found in zip(images, filtered(images, kernel), strict=True):
        torch.testing.assert_close(found, correlated(image, kernel))


@pytest.mark.parametrize("severity", range(1, 6))
def test_impulses_have_the_asked_share_and_leave_the_rest_alone(severity: int) -> None:
    images = torch.full((64, 3, 32, 32), 100, dtype=torch.uint8)
    amount = (0.01, 0.02, 0.03, 0.05, 0.07)[severity - 1]
    spoiled = corrupted(images, "impulse_noise", severity=severity)
    assert set(spoiled.unique().tolist()) == {0, 100, 255}
    deviation = math.sqrt(amount / 2 * (1 - amount / 2) * images.numel())
    for value in (0, 255):
        assert abs(int((spoiled == value).sum()) - amount / 2 * images.numel()) < 4 * deviation
    apart = (spoiled != 100).float()
    assert not torch.equal(apart[:, 0], apart[:, 1])  # value by value, not pixel by pixel


def test_angles_are_uniform_over_the_right_range() -> None:
    found = torch.rad2deg(Draws(seed=0, purpose="x", indices=torch.arange(4000)).angles(-45, 45))
    assert -45 <= float(found.min()) < -44.5
    assert 44.5 < float(found.max()) <= 45
    assert abs(float(found.mean())) < 4 * 90 / math.sqrt(12 * 4000)


def test_draws_are_uniform_normal_and_uncorrelated_between_images() -> None:
    draws = Draws(seed=3, purpose="x", indices=torch.arange(1000))
    uniform, normal = draws.uniform(100).double(), draws.normal(100).double()
    assert 0 <= float(uniform.min()) < 1e-3 < 0.999 < float(uniform.max()) < 1
    assert abs(float(uniform.mean()) - 0.5) < 4 / math.sqrt(12 * 1e5)
    assert abs(float(normal.mean())) < 4 / math.sqrt(1e5)
    assert abs(float(normal.var()) - 1) < 4 * math.sqrt(2 / 1e5)
    assert abs(float((normal**4).mean()) - 3) < 4 * math.sqrt(96 / 1e5)
    assert abs(float((normal[1:] * normal[:-1]).mean())) < 4 / math.sqrt(1e5)
    assert not torch.equal(draws.uniform(100), draws.uniform(100))


@pytest.mark.parametrize("size", [1, 7, 8, 100])
def test_draws_belong_to_the_index(size: int) -> None:
    def drawn(indices: list[int]) -> torch.Tensor:
        return Draws(seed=1, purpose="x", indices=torch.tensor(indices)).bits(size)

    every = drawn(list(range(10)))
    some = [3, 4, 5, 0, 9, 9, 2]
    assert torch.equal(drawn(some), every[some])
    assert len({tuple(row) for row in every.tolist()}) == 10


def test_constants_go_by_size() -> None:
    images = torch.rand(1, 3, 64, 40, generator=torch.Generator().manual_seed(0))
    by_size = corrupted(images, "defocus_blur", severity=1)
    assert torch.equal(by_size, corrupted(images, "defocus_blur", severity=1, constants="tiny"))
    assert not torch.equal(by_size, corrupted(images, "defocus_blur", severity=1, constants="cifar"))
    large = corrupted(images, "motion_blur", severity=5, constants="imagenet")
    assert not torch.equal(large, corrupted(images, "motion_blur", severity=5))
