"""Source text of Python's standard library: on every machine, no download."""

import sysconfig
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from surefoot.data.dataset import Dataset, Split, check_held_out

ALPHABET = "\n" + "".join(map(chr, range(32, 127)))  # what is not in it counts as a blank


def python_text(
    *, num_train: int = 2000, num_test: int = 1000, num_validation: int = 0, context: int = 16, folder: str = ""
) -> Dataset:
    """Windows of `context` characters, labelled with the character that follows: 96 classes.

    From the modules right in the standard library's folder (or another `folder` of Python files), in the order of their
    names: every other one is for tests, so that no window is seen twice. The windows begin at places drawn by a fixed
    seed. The text is that of the Python that runs: another version has another. Inputs are whole numbers.
    """
    for name, value in (("num_train", num_train), ("num_test", num_test), ("context", context)):
        if value < 1:
            raise ValueError(f"`{name}` must be at least 1, got {value}.")
    check_held_out(num_validation, num_train=num_train)
    place = Path(folder or sysconfig.get_paths()["stdlib"])
    files = sorted(place.glob("*.py"))
    if len(files) < 2:
        raise ValueError(f"Text needs at least two Python files, and {place} has {len(files)}: set `data.folder`.")
    inputs, labels = _windows(_text(files[::2]), num_train, context, seed=0)
    kept = num_train - num_validation
    return Dataset(
        name="python-text",
        num_classes=len(ALPHABET),
        train=Split(inputs[:kept], labels[:kept]),
        test=Split(*_windows(_text(files[1::2]), num_test, context, seed=1)),
        validation=Split(inputs[kept:], labels[kept:]) if num_validation else None,
    )


def _text(files: list[Path]) -> NDArray[np.int64]:
    whole = "".join(path.read_text(encoding="utf-8", errors="replace") for path in files)
    places = {letter: place for place, letter in enumerate(ALPHABET)}
    blank = places[" "]
    return np.array([places.get(letter, blank) for letter in whole], dtype=np.int64)


def _windows(text: NDArray[np.int64], number: int, context: int, *, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    available = len(text) - context
    if number > available:
        raise ValueError(f"The text has {max(available, 0)} windows of {context} characters, got a demand of {number}.")
    starts = np.random.default_rng(seed).choice(available, size=number, replace=False)
    inputs = text[starts[:, None] + np.arange(context)]
    return torch.from_numpy(inputs), torch.from_numpy(text[starts + context])
