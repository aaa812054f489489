import io
import math

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter

from references.corruptions import canny, correlated, motion_blur
from references.golden import GOLDEN
from surefoot.data.corruptions import CORRUPTIONS, corrupted
from surefoot.data.corruptions._filters import filtered
from surefoot.data.corruptions._philox_draws import PhiloxDraws
from surefoot.data.corruptions.defocus_blur import disk
from surefoot.data.corruptions.motion_blur import offsets, smeared, taps
from surefoot.data.corruptions.spatter import edges, equalised


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


def test_impulses_hit_bytes_and_floats_in_the_same_places() -> None:
    images = torch.arange(256, dtype=torch.uint8).repeat(24).view(2, 3, 32, 32)
    bytes_, floats = (corrupted(each, "impulse_noise", severity=5) for each in (images, images.double() / 255))
    assert torch.equal(bytes_, (floats * 255).round().to(torch.uint8))
    assert not torch.equal(bytes_, images)


def test_angles_are_uniform_over_the_right_range() -> None:
    found = torch.rad2deg(PhiloxDraws(seed=0, purpose="x", indices=torch.arange(4000)).angles(-45, 45))
    assert -45 <= float(found.min()) < -44.5
    assert 44.5 < float(found.max()) <= 45
    assert abs(float(found.mean())) < 4 * 90 / math.sqrt(12 * 4000)


def test_draws_are_uniform_normal_and_uncorrelated_between_images() -> None:
    draws = PhiloxDraws(seed=3, purpose="x", indices=torch.arange(1000))
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
        return PhiloxDraws(seed=1, purpose="x", indices=torch.tensor(indices)).bits(size)

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


def made(n: int = 4, channels: int = 3, side: int = 32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(n, channels, 6, 6, generator=generator, dtype=torch.float64)
    return torch.nn.functional.interpolate(coarse, size=(side, side), mode="bilinear")


@pytest.mark.parametrize("severity", range(1, 6))
def test_noise_has_the_asked_deviation(severity: int) -> None:
    images = torch.full((50, 3, 32, 32), 0.4, dtype=torch.float64)
    n = images.numel()
    wanted = {
        "gaussian_noise": CORRUPTIONS["gaussian_noise"].cifar[severity - 1],
        "speckle_noise": 0.4 * CORRUPTIONS["speckle_noise"].cifar[severity - 1],
        "shot_noise": math.sqrt(0.4 / CORRUPTIONS["shot_noise"].cifar[severity - 1]),
    }
    for name, deviation in wanted.items():
        found = corrupted(images, name, severity=severity) - images
        assert abs(float(found.mean())) < 4 * deviation / math.sqrt(n)
        assert float(found.std()) == pytest.approx(deviation, rel=4 / math.sqrt(2 * n) + 1e-3)


def test_shot_noise_is_counts() -> None:
    found = corrupted(made(), "shot_noise", severity=5) * 50
    torch.testing.assert_close(found, found.round())


def test_gaussian_blur_is_scipys() -> None:
    from scipy.ndimage import gaussian_filter

    images = made()
    for severity, sigma in enumerate(CORRUPTIONS["gaussian_blur"].cifar, start=1):
        wanted = gaussian_filter(images.numpy(), sigma=(0, 0, sigma, sigma), mode="nearest", truncate=4)
        torch.testing.assert_close(corrupted(images, "gaussian_blur", severity=severity), torch.from_numpy(wanted))


def test_zoom_blur_is_scipys() -> None:
    from scipy.ndimage import zoom

    images = made(2)
    for severity, (most, step) in enumerate(CORRUPTIONS["zoom_blur"].cifar, start=1):
        factors = np.arange(1, most, step)
        total = images.clone()
        for factor in factors:
            crop = math.ceil(32 / factor)
            top = (32 - crop) // 2
            middle = images[..., top : top + crop, top : top + crop].numpy()
            large = zoom(middle, (1, 1, factor, factor), order=1)
            trim = (large.shape[-1] - 32) // 2
            total += torch.from_numpy(large[..., trim : trim + 32, trim : trim + 32])
        found = corrupted(images, "zoom_blur", severity=severity)
        torch.testing.assert_close(found, total / (len(factors) + 1))


def test_glass_blur_is_the_slow_walk() -> None:
    images = torch.arange(2 * 64, dtype=torch.float64).reshape(2, 1, 8, 8) / 128
    sigma, reach, rounds = 0.05, 2, 2  # no blur at all, and neighbours that were replaced before
    draws = PhiloxDraws(seed=0, purpose="x", indices=torch.arange(2))
    found = CORRUPTIONS["glass_blur"].apply(images, (sigma, reach, rounds), draws)
    again = PhiloxDraws(seed=0, purpose="x", indices=torch.arange(2))
    wanted = images.clone()
    for _ in range(rounds):
        moves = (again.uniform(2, 8, 8) * (2 * reach)).long() - reach
        assert set(moves.unique().tolist()) == {-2, -1, 0, 1}
        for n in range(2):
            for row in range(8 - reach, reach, -1):
                for column in range(8 - reach, reach, -1):
                    down, across = moves[n, :, row, column].tolist()
                    wanted[n, 0, row, column] = wanted[n, 0, row + down, column + across].clone()
    torch.testing.assert_close(found, wanted)


def test_brightness_contrast_and_saturation_by_hand() -> None:
    images = torch.tensor([0.2, 0.4, 0.8], dtype=torch.float64).view(1, 3, 1, 1).expand(1, 3, 2, 2).contiguous()
    images[0, :, 0, 0] = 0.0
    images[0, :, 1, 1] = 0.5
    bright = corrupted(images, "brightness", severity=5)  # + 0.3
    assert bright[0, :, 0, 1].tolist() == pytest.approx([0.25, 0.5, 1.0])  # as hue and saturation stay
    assert bright[0, :, 0, 0].tolist() == pytest.approx([0.3, 0.3, 0.3])
    assert bright[0, :, 1, 1].tolist() == pytest.approx([0.8, 0.8, 0.8])
    pale = corrupted(images, "saturate", severity=1)  # saturation 0.75 becomes 0.225
    assert pale[0, :, 0, 1].tolist() == pytest.approx([0.62, 0.68, 0.8])
    vivid = corrupted(images, "saturate", severity=5)  # 1, and 0.2 for grey, as red
    assert vivid[0, :, 0, 1].tolist() == pytest.approx([0.0, 0.8 / 3, 0.8])
    assert vivid[0, :, 1, 1].tolist() == pytest.approx([0.5, 0.4, 0.4])
    flat = corrupted(images, "contrast", severity=2)  # half the distance from the mean
    assert flat[0, 0].flatten().tolist() == pytest.approx([0.1125, 0.2125, 0.2125, 0.3625])


def test_pixelate_is_pillows_box() -> None:
    image_of = pytest.importorskip("PIL.Image")
    images = (made(3) * 255).to(torch.uint8)
    for severity, factor in enumerate(CORRUPTIONS["pixelate"].cifar, start=1):
        found = corrupted(images, "pixelate", severity=severity)
        for image, got in zip(images, found, strict=True):
            picture = image_of.fromarray(image.permute(1, 2, 0).numpy())
            small = picture.resize((int(32 * factor),) * 2, image_of.Resampling.BOX)
            wanted = torch.from_numpy(np.array(small.resize((32, 32), image_of.Resampling.BOX)))
            assert int((got.permute(1, 2, 0).int() - wanted).abs().max()) <= 1  # pillow rounds in between


@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_is_what_pillow_saves_and_reads(channels: int) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, channels), np.uint8)
    pixels[8:] //= 4
    images = torch.from_numpy(pixels).permute(2, 0, 1)[None]
    file = io.BytesIO()
    image.fromarray(pixels if channels == 3 else pixels[:, :, 0]).save(file, "JPEG", quality=50)
    wanted = torch.from_numpy(np.array(image.open(file))).reshape(32, 32, channels).permute(2, 0, 1)[None]
    assert torch.equal(corrupted(images, "jpeg_compression", severity=4), wanted)
    torch.testing.assert_close(corrupted(images / 255, "jpeg_compression", severity=4), wanted / 255)
    with pytest.raises(ValueError, match="jpeg_compression needs images of 1 or 3 channels, got 2"):
        corrupted(torch.zeros(1, 2, 8, 8), "jpeg_compression", severity=1)


def test_fog_is_a_cloud_between_0_and_1() -> None:
    from surefoot.data.corruptions.fog import plasma

    clouds = plasma(200, 32, 3.0, PhiloxDraws(seed=0, purpose="x", indices=torch.arange(200)))
    assert torch.equal(clouds.amin(dim=(1, 2)), torch.zeros(200))
    assert torch.equal(clouds.amax(dim=(1, 2)), torch.ones(200))
    near = (clouds - clouds.roll(1, 2)).abs().mean()
    far = (clouds - clouds.roll(16, 2)).abs().mean()
    assert near < 0.3 * far
    black = corrupted(torch.zeros(1, 1, 8, 8), "fog", severity=5)
    assert float(black.max()) == 0  # scaled to the brightest value that there was


def test_edges_are_the_slow_ones_each_image_for_itself() -> None:
    random = np.random.default_rng(0)
    images = np.stack([gaussian_filter(random.uniform(0, 255, (20, 23)), 1.0) for _ in range(4)]) * 2
    found = edges(images, low=200.0, high=500.0)
    assert 0.02 < found.mean() < edges(images, low=200.0, high=201.0).mean() < 0.5
    for image, got in zip(images, found, strict=True):
        assert np.array_equal(got, canny(image, 200.0, 500.0))


def test_an_equalised_histogram_by_hand() -> None:
    image = np.array([[3, 3], [5, 9]], dtype=np.uint8)  # shares 0, 1/2 and 1 of those that are not the least
    assert equalised(image).tolist() == [[0, 0], [128, 255]]
    assert equalised(np.full((2, 2), 7, dtype=np.uint8)).tolist() == [[7, 7], [7, 7]]


def test_spatter_is_water_then_mud() -> None:
    black, white = (torch.full((20, 3, 32, 32), value, dtype=torch.uint8) for value in (0, 255))
    water = corrupted(black, "spatter", severity=3).float()
    wet = water.sum(dim=1) > 0
    assert 0.02 < float(wet.float().mean()) < 0.9
    shares = water[:, 0][wet] / water[:, 1][wet].clamp(min=1)
    assert float((shares - 175 / 238).abs().mean()) < 0.05
    assert float(water.max()) == math.floor(0.5 * 238)
    assert torch.equal(corrupted(white, "spatter", severity=3), white)
    mud = corrupted(white, "spatter", severity=5)
    covered = mud[:, 2] < 255
    assert 0.02 < float(covered.float().mean()) < 0.9
    assert mud.amin(dim=(0, 2, 3)).tolist() == [63, 42, 20]


def test_elastic_moves_are_small_and_of_the_right_size() -> None:
    from surefoot.data.corruptions.elastic_transform import elastic_transform

    places = torch.arange(32, dtype=torch.float64)
    ramp = torch.stack([places.expand(32, 32), places[:, None].expand(32, 32)]) / 31  # its value is its place
    images = ramp.expand(300, 2, 32, 32).contiguous()
    draws = PhiloxDraws(seed=0, purpose="x", indices=torch.arange(300))
    corner_only = (elastic_transform(images, (0, 0, 0.08), draws) - images)[:, :, 26, 26] * 31
    wanted = 2.56 / math.sqrt(3)  # of the corner at (26, 26), uniform up to 2.56
    assert float(corner_only.std()) == pytest.approx(wanted, rel=0.1)
    still = elastic_transform(images, (0, 0, 0), draws)
    torch.testing.assert_close(still, images)
    bent = (elastic_transform(images, (0.1, 0.03, 0), draws) - images)[:, :, 8:24, 8:24] * 31
    assert float(bent.std()) == pytest.approx(3.2 * math.sqrt(1 / 3 / (4 * math.pi * 0.96**2)), rel=0.05)


def test_snow_whitens_and_falls() -> None:
    images = torch.full((20, 3, 32, 32), 0.3, dtype=torch.float64)
    found = corrupted(images, "snow", severity=2)
    floor = 0.9 * 0.3 + 0.1 * 0.95  # where no flake fell
    assert float(found.min()) == pytest.approx(floor)
    assert 0.02 < float((found > floor + 1e-9).double().mean()) < 0.9
    torch.testing.assert_close(found, found.flip(2, 3))  # flakes come twice, turned
