import os
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from surefoot.data import DATASETS, cifar10, cifar100, cifar100_5k, corrupted, digits, svhn, svhn_crops
from surefoot.data._images import Images, chosen, dataset
from surefoot.data.dataset import Dataset
from surefoot.data.standardisation import Standardisation
from surefoot.runs.check_options import check_options

RANDOM = np.random.default_rng(0)
DATA = Path(os.environ.get("SUREFOOT_DATA", ""))


def needs(file: str) -> None:
    if not (DATA / file).is_file():
        pytest.skip(f"SUREFOOT_DATA does not name a folder with {file}")


def made(n: int = 60, classes: int = 10) -> Images:
    pixels = torch.from_numpy(RANDOM.integers(0, 256, (n + 20, 3, 32, 32), np.uint8))
    labels = np.arange(n + 20) % classes
    return Images("made", classes, pixels[:n], labels[:n], pixels[n:], labels[n:])


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUREFOOT_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("per", ["channel", "coordinate"])
def test_scale_is_the_mean_and_deviation(per: str) -> None:
    images = made(5000).train
    dims = (0, 2, 3) if per == "channel" else (0,)
    scale = Standardisation.of(images, per=per)
    wanted = images.double()
    torch.testing.assert_close(scale.mean.squeeze(), wanted.mean(dim=dims))
    torch.testing.assert_close(scale.std.squeeze(), wanted.std(dim=dims, correction=0))
    found = scale(images)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.mean(dim=dims), torch.zeros_like(found.mean(dim=dims)), rtol=0, atol=1e-5)
    flat = Standardisation.of(torch.full((4, 1, 2, 2), 7, dtype=torch.uint8), per=per)
    assert torch.equal(flat(torch.full((1, 1, 2, 2), 9, dtype=torch.uint8)), torch.full((1, 1, 2, 2), 2.0))


@pytest.mark.parametrize("per", ["channel", "coordinate"])
def test_standardised_images_come_back_to_the_bit(per: str) -> None:
    images = made(300)
    data = dataset(images, standardised=per)
    for split, stored in ((data.train, images.train), (data.test, images.test)):
        assert split.scale is not None
        assert torch.equal(split.scale.images(split.inputs), stored)
        assert torch.equal(split.scale.inputs(stored), split.inputs)


@pytest.mark.parametrize("images", [True, False])
@pytest.mark.parametrize("standardised", ["coordinate", "channel"])
def test_digits_come_back_as_sixteenths(images: bool, standardised: Literal["coordinate", "channel"]) -> None:
    data = digits(num_train=300, num_validation=50, images=images, standardised=standardised)
    for split in data.splits.values():
        assert split.scale is not None
        found = split.scale.images(split.inputs)
        assert found.unique().tolist() == [k / 16 for k in range(17)]
        torch.testing.assert_close(split.scale.inputs(found), split.inputs, rtol=1e-5, atol=1e-5)


def test_digits_are_standardised_by_one_deviation_or_each_by_its_own() -> None:
    plain, alike = digits(num_train=300), digits(num_train=300, standardised="channel", images=True)
    own = plain.train.inputs.std(dim=0, correction=0)
    torch.testing.assert_close(own[own > 0], torch.ones_like(own[own > 0]), rtol=0, atol=1e-5)
    assert alike.input_shape == (1, 8, 8)
    assert float(alike.train.inputs.mean()) == pytest.approx(0, abs=1e-6)
    assert float(alike.train.inputs.std(correction=0)) == pytest.approx(1, abs=1e-6)
    assert float(plain.test.inputs.max()) > 3 * float(alike.test.inputs.max())
    with pytest.raises(ValueError, match="`standardised` must be per coordinate or channel, got 'pixel'"):
        digits(standardised="pixel")  # type: ignore[arg-type]


def test_the_first_in_order_or_a_choice_by_seed() -> None:
    images = made()
    plain = chosen(images, num_train=5, num_test="all", shuffled=False, seed=0)
    assert plain.train.tolist() == [0, 1, 2, 3, 4]
    assert len(plain.test) == 20
    drawn = chosen(images, num_train=5, num_test=3, shuffled=True, seed=1)
    assert len(set(drawn.train.tolist())) == 5
    assert torch.equal(drawn.train, chosen(images, num_train=5, num_test=3, shuffled=True, seed=1).train)
    assert not torch.equal(drawn.train, chosen(images, num_train=5, num_test=3, shuffled=True, seed=2).train)
    data = dataset(images, num_train=5, num_test=3, shuffled=True, seed=1)
    assert data.train.labels.tolist() == images.train_labels[drawn.train].tolist()
    torch.testing.assert_close(data.test.inputs, Standardisation.of(images.train[drawn.train])(images.test[drawn.test]))


@pytest.mark.parametrize("per", ["channel", "coordinate"])
def test_the_last_of_those_to_train_on_are_held_out(per: str) -> None:
    images = made()
    data = dataset(images, num_train=50, num_validation=12, shuffled=True, seed=3, standardised=per)
    assert data.chosen is not None
    assert data.validation is not None
    order = chosen(images, num_train=50, num_test="all", shuffled=True, seed=3).train
    assert torch.equal(data.chosen.train, order[:38])
    assert torch.equal(data.chosen.validation, order[38:])
    assert data.validation.labels.tolist() == images.train_labels[order[38:]].tolist()
    scale = Standardisation.of(images.train[order[:38]], per=per)  # held out images have no say in it
    torch.testing.assert_close(data.validation.inputs, scale(images.train[order[38:]]))
    assert data.test.scale is not None
    assert torch.equal(scale.mean, data.test.scale.mean)
    noisy = dataset(images, num_train=50, num_validation=12, noisy_labels=0.5, shuffled=True, seed=3)
    assert noisy.validation is not None
    assert 0 < int((noisy.validation.labels != data.validation.labels).sum()) < 12
    assert dataset(images).validation is None
    for number in (-1, 50):
        with pytest.raises(ValueError, match=r"`num_validation` must lie in 0\.\.49, got"):
            dataset(images, num_train=50, num_validation=number)


@pytest.mark.parametrize("per", ["channel", "coordinate"])
def test_images_come_back_and_can_be_spoiled(per: str) -> None:
    images = made()
    data = dataset(images, num_validation=5, standardised=per)
    scale = data.test.scale
    assert scale is not None
    assert torch.equal(scale.images(data.train.inputs), images.train[:55])
    spoiled = scale(corrupted(scale.images(data.test.inputs), "defocus_blur", severity=4))
    wanted = dataset(images, num_validation=5, standardised=per, corruption="defocus_blur", severity=4)
    assert torch.equal(spoiled, wanted.test.inputs)
    before = images.test.float()
    scale(before)
    assert torch.equal(before, images.test.float())


def test_images_of_cifar10_5k_are_where_it_says(cifar10: None) -> None:
    data = DATASETS["cifar10-5k"](num_train=40, num_test=30, num_validation=10)
    assert data.chosen is not None
    with np.load(DATA / "cifar10_5k.npz") as file:
        for split, key, places in (
            (data.train, "x_train", data.chosen.train),
            (data.splits["validation"], "x_train", data.chosen.validation),
            (data.test, "x_test", data.chosen.test),
        ):
            assert split.scale is not None
            stored = torch.from_numpy(file[key][places]).permute(0, 3, 1, 2)
            assert torch.equal(split.scale.images(split.inputs), stored)


def test_noisy_labels_are_the_asked_share_of_both_parts() -> None:
    clean, noisy = dataset(made()), dataset(made(), noisy_labels=0.5)
    changed = [int((getattr(clean, part).labels != getattr(noisy, part).labels).sum()) for part in ("train", "test")]
    assert sum(changed) == 40
    assert min(changed) > 0


def test_only_test_images_are_spoiled_and_by_their_place_in_the_store() -> None:
    images = made()
    clean = dataset(images)
    spoiled = dataset(images, corruption="impulse_noise", severity=5)
    assert torch.equal(clean.train.inputs, spoiled.train.inputs)
    wanted = Standardisation.of(images.train)(corrupted(images.test, "impulse_noise", severity=5))
    assert torch.equal(spoiled.test.inputs, wanted)
    some = dataset(images, shuffled=True, num_test=7, corruption="impulse_noise", severity=5)
    order = chosen(images, num_train="all", num_test=7, shuffled=True, seed=0).test
    torch.testing.assert_close(some.test.inputs, wanted[order])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_train": 61}, r"`num_train` must lie in 1\.\.60, got 61"),
        ({"num_test": 0}, r"`num_test` must lie in 1\.\.20, got 0"),
        ({"standardised": "pixel"}, "must be per channel or coordinate, got 'pixel'"),
        ({"noisy_labels": 2.0}, "`noisy_labels` must lie in"),
        ({"corruption": "motion_blurr"}, "Did you mean 'motion_blur'"),
        ({"corruption": "motion_blur", "severity": 6}, "`severity` must be 1, 2, 3, 4 or 5, got 6"),
        ({"severity": 3}, "`severity` is 3, but `corruption` names none"),
    ],
)
def test_bad_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataset(made(), **options)


def test_what_is_not_stored_says_what_to_run(store: Path) -> None:
    for name in ("cifar10", "fashion-mnist", "mnist"):
        with pytest.raises(FileNotFoundError, match=f"no {name}.npz in .*Run: surefoot data fetch {name}"):
            DATASETS[name]()
    with pytest.raises(FileNotFoundError, match=r"no cifar100_5k\.npz"):
        cifar100_5k()
    with pytest.raises(FileNotFoundError, match=r"no svhn_test_2k\.npz"):
        svhn_crops(Standardisation.of(made().train))


def test_what_is_stored_is_read(store: Path) -> None:
    images = made()
    np.savez(
        store / "cifar10.npz",
        x_train=images.train.permute(0, 2, 3, 1).numpy(),
        y_train=images.train_labels,
        x_test=images.test.permute(0, 2, 3, 1).numpy(),
        y_test=images.test_labels,
    )
    found = cifar10(num_train=50)
    assert found.input_shape == (3, 32, 32)
    torch.testing.assert_close(found.train.inputs, dataset(images, num_train=50).train.inputs)
    (store / "cifar10.npz").write_bytes(b"PK nonsense")
    with pytest.raises(ValueError, match=r"cifar10\.npz is not what it should be"):
        cifar10()


def test_the_cache_folder_is_used_without_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUREFOOT_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}/surefoot"):
        cifar10()


def test_every_option_is_known_to_a_run_and_checked() -> None:
    check_options("data", {"num_train": 5, "num_test": "all", "standardised": "channel"}, DATASETS["cifar10"])
    check_options("data", {"path": "x", "side": 32, "seed": 3, "corruption": "none"}, DATASETS["folder"])
    with pytest.raises(ValueError, match=r"\[data\] needs `path`"):
        check_options("data", {}, DATASETS["cifar100"])
    with pytest.raises(ValueError, match=r"`data\.num_train` must be"):
        check_options("data", {"num_train": "some"}, DATASETS["cifar10"])
    with pytest.raises(ValueError, match="Did you mean 'num_train'"):
        check_options("data", {"num_trian": 5}, DATASETS["mnist"])


def test_binary_cifar100(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = RANDOM.integers(0, 256, (7, 3, 32, 32), np.uint8)
    for name, rows in (("train", slice(0, 5)), ("test", slice(5, 7))):
        records = [bytes([3, 90 + k]) + image.tobytes() for k, image in enumerate(pixels[rows])]
        (tmp_path / f"{name}.bin").write_bytes(b"".join(records))
    data = cifar100(path=str(tmp_path))
    assert (data.num_classes, data.train.labels.tolist(), data.test.labels.tolist()) == (
        100,
        [*range(90, 95)],
        [90, 91],
    )
    torch.testing.assert_close(
        data.train.inputs, Standardisation.of(torch.from_numpy(pixels[:5]))(torch.from_numpy(pixels[:5]))
    )
    monkeypatch.setenv("SUREFOOT_DATA", str(tmp_path.parent))
    assert torch.equal(cifar100(path=tmp_path.name).test.inputs, data.test.inputs)
    (tmp_path / "test.bin").write_bytes(b"123")
    with pytest.raises(ValueError, match=r"test\.bin must hold records of 3074 bytes, got 3 bytes"):
        cifar100(path=str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"unpack cifar-100-binary\.tar\.gz"):
        cifar100(path=str(tmp_path / "absent"))


def test_svhn_mat_files(tmp_path: Path) -> None:
    from scipy.io import savemat

    pixels = RANDOM.integers(0, 256, (32, 32, 3, 6), np.uint8)
    for name in ("train", "test"):
        savemat(tmp_path / f"{name}_32x32.mat", {"X": pixels, "y": np.array([[10], [1], [2], [9], [10], [5]])})
    data = svhn(path=str(tmp_path))
    assert data.train.labels.tolist() == [0, 1, 2, 9, 0, 5]
    images = torch.from_numpy(pixels.transpose(3, 2, 0, 1).copy())
    torch.testing.assert_close(data.test.inputs, Standardisation.of(images)(images))
    savemat(tmp_path / "test_32x32.mat", {"X": pixels})
    with pytest.raises(ValueError, match=r"test_32x32\.mat is not what it should be"):
        svhn(path=str(tmp_path))
    (tmp_path / "test_32x32.mat").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"test_32x32\.mat is not what it should be"):
        svhn(path=str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"There is no .*train_32x32\.mat"):
        svhn(path=str(tmp_path / "absent"))


def test_cifar100_5k() -> None:
    needs("cifar100_5k.npz")
    data = cifar100_5k(num_train=300, num_test=40, standardised="coordinate")
    assert (data.num_classes, data.input_shape) == (100, (3, 32, 32))
    assert int(data.train.labels.max()) > 50
    torch.testing.assert_close(data.train.inputs.mean(dim=0), torch.zeros(3, 32, 32), rtol=0, atol=1e-5)


def test_svhn_crops_are_foreign_samples_on_the_scale_of_others() -> None:
    needs("svhn_test_2k.npz")
    scale = Standardisation.of(made().train)
    found = svhn_crops(scale, num_test=100)
    assert found.inputs.shape == (100, 3, 32, 32)
    with np.load(DATA / "svhn_test_2k.npz") as file:
        wanted = (file["x_test"][5].transpose(2, 0, 1) - scale.mean.numpy()) / scale.std.numpy()
    torch.testing.assert_close(found.inputs[5], torch.from_numpy(wanted).float())
    with pytest.raises(ValueError, match="`num_test` must lie in"):
        svhn_crops(scale, num_test=2001)


def test_full_cifar10_if_it_was_fetched() -> None:
    needs("cifar10.npz")
    data: Dataset = cifar10(num_train="all", num_test=10)
    assert data.train.labels[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert data.test.labels.tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]
