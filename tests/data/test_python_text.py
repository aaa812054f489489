"""Text as data, and the model that reads it."""

from pathlib import Path

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from references.dense import dense_ggn
from surefoot.curvature import sharpness
from surefoot.data._python_text import ALPHABET, python_text
from surefoot.losses import CrossEntropy
from surefoot.models import TextTransformer
from surefoot.theory import kinks


def spelt(numbers: torch.Tensor) -> str:
    return "".join(ALPHABET[number] for number in numbers.tolist())


def test_windows_are_labelled_with_what_follows(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("abcdefghijklmnop" * 20)
    (tmp_path / "b.py").write_text("zyxwvu\té\n" * 20)
    data = python_text(folder=str(tmp_path), num_train=50, num_test=40, num_validation=10, context=5)
    assert (data.num_classes, data.input_shape, len(data.train.labels)) == (96, (5,), 40)
    circle = "abcdefghijklmnop" * 2
    for window, label in zip(data.train.inputs, data.train.labels, strict=True):
        assert spelt(window) + ALPHABET[int(label)] in circle
    assert data.validation is not None
    assert len(data.validation.labels) == 10
    seen = set("".join(spelt(window) for window in data.test.inputs))
    assert seen <= set("zyxwvu \n")  # another file; what the alphabet lacks is a blank
    again = python_text(folder=str(tmp_path), num_train=50, num_test=40, num_validation=10, context=5)
    assert torch.equal(again.train.inputs, data.train.inputs)


def test_the_standard_library_is_there() -> None:
    data = python_text()
    assert (len(data.train.labels), len(data.test.labels), data.input_shape) == (2000, 1000, (16,))
    common = ALPHABET[int(data.train.labels.bincount().argmax())]
    assert common == " "


def test_bad_demands_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least two Python files"):
        python_text(folder=str(tmp_path))
    (tmp_path / "a.py").write_text("abc" * 4)
    (tmp_path / "b.py").write_text("abc" * 4)
    with pytest.raises(ValueError, match="The text has 8 windows of 4 characters, got a demand of 9"):
        python_text(folder=str(tmp_path), num_train=9, num_test=1, context=4)
    with pytest.raises(ValueError, match="`context` must be at least 1"):
        python_text(context=0)


def model(**options: int) -> TextTransformer:
    torch.manual_seed(0)
    return TextTransformer(input_shape=(6,), num_classes=5, **{"dim": 8, "depth": 1, "heads": 2, "mlp": 8, **options})


def test_the_model_reads_characters_and_places() -> None:
    tokens = torch.tensor([[0, 1, 2, 3, 4, 0], [1, 0, 2, 3, 4, 0]])
    network = model().double()
    logits = network(tokens)
    assert logits.shape == (2, 5)
    assert not torch.equal(logits[0], logits[1])  # the same characters elsewhere
    torch.testing.assert_close(network(tokens[:1]), logits[:1])
    assert kinks(network, tokens) == ()
    with pytest.raises(ValueError, match="must be a number of characters"):
        TextTransformer(input_shape=(3, 8, 8), num_classes=5)
    with pytest.raises(ValueError, match="`dim` must be a multiple of the 3 heads"):
        model(heads=3)


def test_its_sharpness_is_that_of_the_dense_matrix() -> None:
    network = model().double()
    with torch.no_grad():
        for p in network.parameters():
            p.mul_(5)
    generator = torch.Generator().manual_seed(0)
    tokens, labels = torch.randint(5, (12, 6), generator=generator), torch.randint(5, (12,), generator=generator)
    with sdpa_kernel(SDPBackend.MATH):  # the fused one has no batching rule
        dense = dense_ggn(network, CrossEntropy(), tokens, labels)
    found = sharpness(network, CrossEntropy(), (tokens, labels), tolerance=1e-6)
    assert found.value == pytest.approx(float(torch.linalg.eigvalsh(dense)[-1]), rel=1e-5)
