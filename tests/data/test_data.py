from pathlib import Path

import numpy as np
import pytest
import torch

from surefoot.data import DATASETS, Dataset, Split, cifar10_5k, digits
from surefoot.data.dataset import with_noisy_labels
from surefoot.data.standardisation import standardised


def test_digits() -> None:
    data = digits()
    assert (len(data.train.labels), len(data.test.labels)) == (1200, 597)
    assert data.input_shape == (64,)
    varying = data.train.inputs.std(dim=0, correction=0) > 0
    torch.testing.assert_close(data.train.inputs.mean(dim=0), torch.zeros(64), rtol=0, atol=1e-6)
    torch.testing.assert_close(data.train.inputs[:, varying].std(dim=0, correction=0), torch.ones(int(varying.sum())))
    assert torch.equal(digits().train.inputs, data.train.inputs)


def test_noisy_labels_are_the_asked_share_and_never_the_true_class() -> None:
    labels = np.arange(1000) % 10
    noisy = with_noisy_labels(labels, share=0.3, num_classes=10, seed=0)
    assert (noisy != labels).sum() == 300
    assert noisy.min() == 0
    assert noisy.max() == 9
    clean, changed = digits(), digits(noisy_labels=0.4)
    assert torch.equal(clean.train.inputs, changed.train.inputs)
    wrong = (clean.train.labels != changed.train.labels).sum() + (clean.test.labels != changed.test.labels).sum()
    assert wrong == round(0.4 * 1797)


@pytest.mark.parametrize("options", [{"num_train": 0}, {"num_train": 1797}, {"noisy_labels": 1.1}])
def test_digits_refuses(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must lie in"):
        digits(**options)  # type: ignore[arg-type]


def test_labels_out_of_range_are_refused() -> None:
    good = Split(torch.zeros(2, 3), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"In the test split of x: `labels` must lie in 0..1, got values from 0 to 2"):
        Dataset("x", 2, good, Split(torch.zeros(2, 3), torch.tensor([0, 2])))
    with pytest.raises(ValueError, match="2 inputs but 1 labels"):
        Dataset("x", 2, Split(torch.zeros(2, 3), torch.tensor([0])), good)
    with pytest.raises(ValueError, match="is empty"):
        Dataset("x", 2, Split(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)), good)


def test_standardising_leaves_constant_coordinates_finite() -> None:
    train, test = standardised(np.array([[1.0, 5.0], [3.0, 5.0]]), np.array([[2.0, 7.0]]))
    assert train.tolist() == [[-1.0, 0.0], [1.0, 0.0]]
    assert test.tolist() == [[0.0, 2.0]]


def test_cifar10(cifar10: None) -> None:
    data = cifar10_5k(num_train=200, num_test=50)
    assert data.input_shape == (3, 32, 32)
    assert data.train.labels[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert data.test.labels[:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]
    assert data.train.inputs.dtype == torch.float32
    torch.testing.assert_close(data.train.inputs.mean(dim=0), torch.zeros(3, 32, 32), rtol=0, atol=1e-6)


def test_cifar10_without_its_file_says_what_to_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SUREFOOT_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="Set SUREFOOT_DATA"):
        cifar10_5k()
    monkeypatch.delenv("SUREFOOT_DATA")
    with pytest.raises(FileNotFoundError, match="SUREFOOT_DATA is not set"):
        cifar10_5k()


def test_cifar10_with_labels_out_of_range_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    images = np.zeros((5, 32, 32, 3), dtype=np.uint8)
    labels = np.array([0, 1, 2, 3, 10])
    np.savez(tmp_path / "cifar10_5k.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    monkeypatch.setenv("SUREFOOT_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=r"`labels` must lie in 0..9, got values from 0 to 10"):
        cifar10_5k()


def test_every_dataset_has_a_docstring() -> None:
    assert all(make.__doc__ for make in DATASETS.values())


def test_validation_samples_are_the_last_of_those_to_train_on() -> None:
    plain, held = digits(num_train=300), digits(num_train=300, num_validation=50)
    assert plain.validation is None
    assert list(plain.splits) == ["train", "test"]
    assert list(held.splits) == ["train", "test", "validation"]
    assert held.validation is not None
    assert len(held.train.labels) == 250
    assert torch.equal(torch.cat([held.train.labels, held.validation.labels]), plain.train.labels)
    assert torch.equal(held.test.labels, plain.test.labels)
    torch.testing.assert_close(held.train.inputs, digits(num_train=250).train.inputs)  # by its own mean and deviation
    moved = held.to(torch.device("cpu"))
    assert moved.validation is not None
    assert torch.equal(moved.validation.inputs, held.validation.inputs)
    assert plain.to(torch.device("cpu")).validation is None
    for wrong in (-1, 300):
        with pytest.raises(ValueError, match=r"`num_validation` must lie in 0..299"):
            digits(num_train=300, num_validation=wrong)
    good = Split(torch.zeros(2, 3), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="The validation split of x is empty"):
        Dataset("x", 2, good, good, Split(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)))


def test_validation_samples_of_cifar10(cifar10: None) -> None:
    held = cifar10_5k(num_train=60, num_test=10, num_validation=20)
    assert held.validation is not None
    assert torch.equal(held.validation.labels, cifar10_5k(num_train=60, num_test=10).train.labels[40:])
    torch.testing.assert_close(held.train.inputs, cifar10_5k(num_train=40, num_test=10).train.inputs)
