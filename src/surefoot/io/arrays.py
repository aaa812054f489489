"""Named arrays in files: npz, csv, safetensors, parquet. Nothing is ever unpickled."""

import csv
import re
from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, is_zipfile

import numpy as np
import torch
from torch import Tensor

from surefoot.registry import look_up

Arrays = Mapping[str, Callable[[], Tensor]]  # by name, each read when called for


def read_arrays(path: Path) -> Arrays:
    """The arrays of an npz, csv, safetensors or parquet file, by name."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a file.")
    reader = look_up("kind of file", path.suffix.lower(), _READERS)
    if not path.exists():
        raise ValueError(f"There is no file {path}.")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty.")
    return reader(path)


def _from_npz(path: Path) -> Arrays:
    if not is_zipfile(path):
        raise ValueError(f"{path} is not an npz file.")
    file = np.load(path, allow_pickle=False)
    return {name: partial(from_numpy, path, name, partial(file.__getitem__, name)) for name in file.files}


def from_numpy(source: Path | str, name: str, read: Callable[[], Any]) -> Tensor:
    """The tensor of a numpy array of numbers; ValueError where it is anything else."""
    try:
        array = read()
    except BadZipFile as error:
        raise ValueError(f"{source} is damaged: {error}.") from None
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise ValueError(f"{source}: {name!r} holds Python objects, which are never unpickled; save numbers.") from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        kind = array.dtype if isinstance(array, np.ndarray) else "something else"
        raise ValueError(f"{source}: {name!r} must hold numbers, got {kind}.")
    if array.dtype.kind == "u":
        array = array.astype(np.int64)
    if array.dtype == np.longdouble:
        array = array.astype(np.float64)
    native = array.dtype.newbyteorder("=")
    return torch.from_numpy(np.require(array, dtype=native, requirements=["C", "W"]))


def _from_safetensors(path: Path) -> Arrays:
    from safetensors import SafetensorError, safe_open

    try:
        file: Any = safe_open(path, framework="pt")
        names = list(file.keys())
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file: {error}.") from None
    return {name: partial(file.get_tensor, name) for name in names}


def _from_csv(path: Path) -> Arrays:
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        header = file.readline().removeprefix("#")  # as numpy.savetxt writes it
        names = [name.strip().strip('"') for name in header.split(",")]
        if all(_is_number(name) for name in names):
            raise ValueError(
                f"{path} has no header: its first line must name the columns, as in logits_0,logits_1,label."
            )
        if len(set(names)) < len(names):
            raise ValueError(f"{path} must name every column differently, got {', '.join(names)}.")
        first = file.readline()
        if not first.strip():
            raise ValueError(f"{path} has a header but no rows.")
        cells = next(csv.reader([first]))
        if len(cells) != len(names):
            raise ValueError(f"{path} has {len(names)} names in its header but {len(cells)} columns.")
        text = {k: cell for k, cell in enumerate(cells) if not _is_number(cell)}
        skipped: dict[int | str, Callable[[str], float]] = dict.fromkeys(text, lambda _: 0.0)
        try:
            table = np.loadtxt(chain([first], file), delimiter=",", ndmin=2, converters=skipped, quotechar='"')
        except ValueError as error:
            raise ValueError(
                f"{path} is not a csv file of numbers: {str(error).splitlines()[0].rstrip('.')}."
            ) from None
    return _columns(
        {
            name: partial(_text, path, name, text[k]) if k in text else partial(_column, table, k)
            for k, name in enumerate(names)
        }
    )


def _text(path: Path, name: str, cell: str) -> Tensor:
    raise ValueError(f"{path}: {name!r} must hold numbers, got {cell!r}.")


def _column(table: np.ndarray[Any, Any], k: int) -> Tensor:
    return torch.from_numpy(table[:, k].copy())


def _from_parquet(path: Path) -> Arrays:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError("Parquet files need pyarrow: pip install 'surefoot[parquet]'.") from None

    try:
        table = pq.read_table(path)
    except pa.ArrowException as error:
        raise ValueError(f"{path} is not a parquet file: {str(error).splitlines()[0].rstrip('.')}.") from None

    return arrays_of_table(table, source=path)


def arrays_of_table(table: Any, *, source: Path | str) -> Arrays:
    """The columns of an Arrow table, by name; `source` is what errors call it."""
    import pyarrow as pa

    def column(name: str) -> Tensor:
        values = table.column(name).combine_chunks()
        if values.null_count:
            raise ValueError(f"{source}: {name!r} has {values.null_count} missing values.")
        if (
            pa.types.is_list(values.type)
            or pa.types.is_fixed_size_list(values.type)
            or pa.types.is_large_list(values.type)
        ):
            flat = values.flatten().to_numpy(zero_copy_only=False)
            if len({len(row) for row in values}) != 1:
                raise ValueError(f"{source}: {name!r} must hold lists of the same length.")
            return from_numpy(source, name, lambda: flat.reshape(len(values), -1))
        return from_numpy(source, name, lambda: values.to_numpy(zero_copy_only=False))

    return _columns({name: partial(column, name) for name in table.column_names})


def _columns(single: dict[str, Callable[[], Tensor]]) -> Arrays:
    """The columns, and those that share a name up to a number at its end as one array too."""
    groups: dict[str, list[tuple[int, str]]] = {}
    for name in single:
        match = re.fullmatch(r"(.*?)[_.\- ]?\[?(\d+)\]?", name)
        if match and match[1]:
            groups.setdefault(match[1], []).append((int(match[2]), name))

    def together(name: str, members: list[tuple[int, str]]) -> Tensor:
        numbers = [number for number, _ in sorted(members)]
        if numbers != list(range(len(members))):
            raise ValueError(f"The columns of {name!r} must be numbered from 0 without gaps, got {numbers}.")
        return torch.stack([single[column]() for _, column in sorted(members)], dim=1)

    arrays: dict[str, Callable[[], Tensor]] = dict(single)
    for name, members in groups.items():
        arrays.setdefault(name, partial(together, name, members))
    return arrays


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


_READERS: dict[str, Callable[[Path], Arrays]] = {
    ".npz": _from_npz,
    ".csv": _from_csv,
    ".safetensors": _from_safetensors,
    ".parquet": _from_parquet,
}
READABLE = frozenset(_READERS)  # how names of files end that can be read
