"""`Predictions` to and from numpy, Arrow, pandas, polars, Hugging Face datasets, and to parquet.

What is written here has the names that every reader of surefoot looks for: `logits` or `probs`, and `labels`; in tables
one column per class, `logits_0`, `logits_1`, ... Half precision becomes float32, which holds it exactly. Parquet files
are read by `surefoot.io.read_predictions`. Everything but numpy goes through Arrow, so needs pyarrow.
"""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.files import write_atomically
from surefoot.io.arrays import arrays_of_table
from surefoot.io.arrays import from_numpy as tensor
from surefoot.io.predictions_file import predictions_of
from surefoot.predictions import Predictions

Array = np.ndarray[Any, Any]


def to_numpy(predictions: Predictions) -> dict[str, Array]:
    """Scores [N, K] and labels [N] by name: `np.savez("predictions.npz", **to_numpy(predictions))`."""
    given = predictions.given_probabilities
    scores = (predictions.logits if given is None else given).detach().cpu()
    exact = scores.float() if scores.dtype.itemsize < 4 else scores
    return {"logits" if given is None else "probs": exact.numpy(), "labels": predictions.labels.cpu().long().numpy()}


def from_numpy(
    arrays: Mapping[str, Any], *, logits: str | None = None, probabilities: str | None = None, labels: str | None = None
) -> Predictions:
    """Predictions from arrays by name; those that are not named are looked for under their usual names.

    >>> from_numpy({"probs": [[0.8, 0.2]], "y": [1]}).confidence.tolist()
    [0.8]
    """
    if not isinstance(arrays, Mapping):
        raise TypeError(f"`arrays` must be a mapping from names to arrays, got {type(arrays).__name__}.")
    tensors = {name: partial(tensor, "arrays", name, partial(np.asarray, values)) for name, values in arrays.items()}
    return predictions_of(tensors, source="arrays", logits=logits, probabilities=probabilities, labels=labels)


def to_arrow(predictions: Predictions, *, lists: bool = False) -> Any:
    """A pyarrow.Table with a column per class, or, with `lists`, one column of lists for all of them."""
    pa = _imported("pyarrow", extra="parquet")
    arrays = to_numpy(predictions)
    labels = arrays.pop("labels")
    ((name, scores),) = arrays.items()
    if lists:
        columns = {name: pa.FixedSizeListArray.from_arrays(pa.array(scores.reshape(-1)), scores.shape[1])}
    else:
        columns = {f"{name}_{k}": pa.array(np.ascontiguousarray(column)) for k, column in enumerate(scores.T)}
    return pa.table({**columns, "labels": pa.array(labels)})


def from_arrow(
    table: Any, *, logits: str | None = None, probabilities: str | None = None, labels: str | None = None
) -> Predictions:
    """Predictions from a pyarrow.Table, of a column per class or of one column of lists."""
    pa = _imported("pyarrow", extra="parquet")
    _check_kind("table", table, pa.Table, "a pyarrow.Table")
    return _from_table(table, "table", logits=logits, probabilities=probabilities, labels=labels)


def to_parquet(predictions: Predictions, path: Path | str) -> None:
    """Write a parquet file that `surefoot evaluate` and `read_predictions` read."""
    pa, pq = _imported("pyarrow", extra="parquet"), _imported("pyarrow.parquet", extra="parquet")
    stream = pa.BufferOutputStream()
    pq.write_table(to_arrow(predictions), stream)
    write_atomically(Path(path), stream.getvalue().to_pybytes())


def to_pandas(predictions: Predictions) -> Any:
    """A pandas.DataFrame with a column per class and one of labels."""
    _imported("pandas", extra="pandas")
    return to_arrow(predictions).to_pandas()


def from_pandas(
    frame: Any, *, logits: str | None = None, probabilities: str | None = None, labels: str | None = None
) -> Predictions:
    """Predictions from a pandas.DataFrame; its index is left aside."""
    pandas, pa = _imported("pandas", extra="pandas"), _imported("pyarrow", extra="pandas")
    _check_kind("frame", frame, pandas.DataFrame, "a pandas.DataFrame")
    table = _converted("frame", lambda: pa.Table.from_pandas(frame, preserve_index=False))
    return _from_table(table, "frame", logits=logits, probabilities=probabilities, labels=labels)


def to_polars(predictions: Predictions) -> Any:
    """A polars.DataFrame with a column per class and one of labels."""
    return _imported("polars", extra="polars").from_arrow(to_arrow(predictions))


def from_polars(
    frame: Any, *, logits: str | None = None, probabilities: str | None = None, labels: str | None = None
) -> Predictions:
    """Predictions from a polars.DataFrame; a LazyFrame is to be collected first."""
    polars = _imported("polars", extra="polars")
    _check_kind("frame", frame, polars.DataFrame, "a polars.DataFrame")
    table = _converted("frame", frame.to_arrow)
    return _from_table(table, "frame", logits=logits, probabilities=probabilities, labels=labels)


def to_dataset(predictions: Predictions) -> Any:
    """A datasets.Dataset with a column of lists and one of labels."""
    datasets = _imported("datasets", extra="datasets")
    return datasets.Dataset(to_arrow(predictions, lists=True))


def from_dataset(
    dataset: Any, *, logits: str | None = None, probabilities: str | None = None, labels: str | None = None
) -> Predictions:
    """Predictions from one split of Hugging Face's datasets, in the order and selection it has."""
    datasets = _imported("datasets", extra="datasets")
    _check_kind("dataset", dataset, datasets.Dataset, "a datasets.Dataset, one split in memory")
    if not len(dataset):
        raise ValueError("`dataset` must hold at least 1 sample, got none.")
    table = _converted("dataset", lambda: dataset.with_format("arrow")[:])
    return _from_table(table, "dataset", logits=logits, probabilities=probabilities, labels=labels)


def _from_table(table: Any, source: str, **named: str | None) -> Predictions:
    if len(set(table.column_names)) < len(table.column_names):
        raise ValueError(f"{source} must name every column differently, got {', '.join(table.column_names)}.")
    return predictions_of(arrays_of_table(table, source=source), source=source, **named)


def _converted(source: str, convert: Callable[[], Any]) -> Any:
    pa = _imported("pyarrow", extra="parquet")
    try:
        return convert()
    except (pa.ArrowException, ValueError) as error:
        raise ValueError(f"{source} must hold columns of one type each: {str(error).splitlines()[0]}.") from None


def _check_kind(name: str, value: Any, kind: type, wanted: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"`{name}` must be {wanted}, got {type(value).__module__}.{type(value).__name__}.")


def _imported(module: str, *, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"This needs {package}: pip install 'surefoot[{extra}]' ({error}).") from None
