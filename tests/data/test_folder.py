from pathlib import Path

import numpy as np
import pytest
import torch

from surefoot.data import DATASETS
from surefoot.data._folder import decoded
from surefoot.data.standardisation import Standardisation

Image = pytest.importorskip("PIL.Image")


def picture(path: Path, colour: tuple[int, int, int], size: tuple[int, int] = (8, 8)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for part in ("train", "val"):
        for k, name in enumerate(("ape", "bee", "cat")):
            for number in range(2):
                picture(tmp_path / part / name / f"{number}.png", (10 * k, 20 * k, 100 * number))
    (tmp_path / "train" / "ape" / "notes.txt").write_text("not a picture")
    return tmp_path


def test_classes_by_name_and_files_in_order(root: Path) -> None:
    (root / "train" / ".cache").mkdir()
    data = DATASETS["folder"](path=str(root), side=4)
    assert (data.num_classes, data.input_shape) == (3, (3, 4, 4))
    assert data.train.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert data.test.labels.tolist() == [0, 0, 1, 1, 2, 2]
    halves = [DATASETS["folder"](path=str(root), side=4, num_validation=3, seed=seed) for seed in range(20)]
    assert max(len(half.splits["validation"].labels.unique()) for half in halves) == 3  # not the last classes alone
    colours = torch.tensor([[10 * k, 20 * k, 100 * number] for k in range(3) for number in range(2)], dtype=torch.uint8)
    images = colours[:, :, None, None].expand(-1, -1, 4, 4)
    torch.testing.assert_close(data.train.inputs, Standardisation.of(images)(images))


def test_the_middle_is_kept(tmp_path: Path) -> None:
    stripes = np.zeros((10, 30, 3), np.uint8)
    stripes[:, 10:20] = 200
    Image.fromarray(stripes).save(tmp_path / "a.png")
    found = decoded([tmp_path / "a.png"], side=10)
    assert found.shape == (1, 3, 10, 10)
    assert found.unique().tolist() == [200]


def test_what_cannot_be_read_is_said(root: Path, tmp_path: Path) -> None:
    (root / "val" / "cat" / "0.png").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"cat/0\.png is not a picture that can be read"):
        DATASETS["folder"](path=str(root))
    whole = root / "train" / "ape" / "0.png"
    whole.write_bytes(whole.read_bytes()[:-30])
    with pytest.raises(ValueError, match=r"ape/0\.png is not a picture that can be read"):
        DATASETS["folder"](path=str(root))
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        DATASETS["folder"](path=str(root / "absent"))
    with pytest.raises(ValueError, match=r"`side` must be smaller: .* bytes of pictures are more than"):
        DATASETS["folder"](path=str(root), side=20_000)


def test_classes_must_agree(root: Path) -> None:
    picture(root / "val" / "dog" / "0.png", (0, 0, 0))
    with pytest.raises(ValueError, match="must have the classes of"):
        DATASETS["folder"](path=str(root))


def test_tiny_imagenet(tmp_path: Path) -> None:
    for k, name in enumerate(("n01", "n02")):
        for number in range(3):
            picture(tmp_path / "train" / name / "images" / f"{name}_{number}.JPEG", (100 * k, 0, 0), (64, 64))
    for k in range(2):
        picture(tmp_path / "val" / "images" / f"val_{k}.JPEG", (0, 0, 0), (64, 64))
    notes = tmp_path / "val" / "val_annotations.txt"
    notes.write_text("val_0.JPEG\tn02\t0\t0\t9\t9\nval_1.JPEG\tn01\t0\t0\t9\t9\n")
    data = DATASETS["tiny-imagenet"](path=str(tmp_path))
    assert data.input_shape == (3, 64, 64)
    assert data.train.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.test.labels.tolist() == [1, 0]
    notes.write_text("val_0.JPEG\tn99\t0\t0\t9\t9\n")
    with pytest.raises(ValueError, match="names classes that train does not have: n99"):
        DATASETS["tiny-imagenet"](path=str(tmp_path))
    notes.unlink()
    with pytest.raises(FileNotFoundError, match="must be the folder of Tiny-ImageNet"):
        DATASETS["tiny-imagenet"](path=str(tmp_path))
