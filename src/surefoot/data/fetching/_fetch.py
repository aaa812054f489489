"""A data set from a source into the store."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from zipfile import is_zipfile

import numpy as np

from surefoot.data.fetching._download import Damaged, Progress, Unreachable, check_space, download
from surefoot.data.fetching._fetchable import FETCHABLE, Contents, Fetchable, Source
from surefoot.files import locked
from surefoot.registry import look_up


def fetch(
    name: str,
    folder: Path,
    *,
    on_bytes: Progress = lambda done, total: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> Path:
    """Store a data set as `name`.npz in `folder`, from the first of its sources that has it; its path.

    uint8 images [N, H, W, C] `x_train` and `x_test`, int64 labels `y_train` and `y_test`. Already there, it is kept.
    """
    wanted = look_up("data set to fetch", name, FETCHABLE)
    path = folder / f"{name}.npz"
    with locked(folder / ".fetching"):
        if is_zipfile(path):  # else it is none, or half of one
            return path
        problems = []
        for source in wanted.sources:
            say(f"Fetching {name} from the {source.name}.")
            try:
                _store(wanted, source, path, on_bytes)
            except (Damaged, Unreachable, ImportError) as error:
                problems.append(str(error))
                say(str(error))
            else:
                return path
    raise Unreachable(f"{name} could not be fetched. {' '.join(problems)}")


def _store(wanted: Fetchable, source: Source, path: Path, on_bytes: Progress) -> None:
    paths = [path.parent / ".fetching" / f"{path.stem}-{address.rpartition('/')[2]}" for address in source.files]
    for place, (address, sha256) in zip(paths, source.files.items(), strict=True):
        if not place.is_file():
            download(address, place, sha256=sha256, spare=wanted.num_bytes, on_bytes=on_bytes)
    try:
        contents = source.unpack(paths)
        _check(wanted, contents)
    except ValueError as error:
        for place in paths:
            place.unlink()
        raise Damaged(f"What the {source.name} gave was deleted and not used: {error}") from None
    check_space(path.parent, wanted.num_bytes)
    temporary = path.with_name(path.name + ".part")
    with temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, **wanted.arrays(contents))
    temporary.replace(path)
    for place in paths:
        place.unlink()


def _check(wanted: Fetchable, contents: Contents) -> None:
    for name, sha256 in wanted.contents.items():
        actual = hashlib.sha256(contents[name]).hexdigest()
        if actual != sha256:
            raise ValueError(f"{name} must have the sha256 {sha256}, got {actual}.")
