"""Predictions in files."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from surefoot.argument_error import ArgumentError
from surefoot.io.arrays import Arrays, read_arrays
from surefoot.predictions import Predictions, whole_labels
from surefoot.registry import look_up
from surefoot.scores import Scores, are_probabilities, scores_of_probabilities

LOGITS = ("logits",)
PROBABILITIES = ("probs", "probabilities")
LABELS = ("labels", "label", "y", "targets", "target")


def read_predictions(
    path: Path | str, *, logits: str | None = None, probabilities: str | None = None, labels: str | None = None
) -> Predictions:
    """Read predictions from an npz, csv, safetensors or parquet file.

    Nothing is guessed from values: an array is logits or probabilities by its name or because the caller says so. In
    csv and parquet an array of several columns goes by what their names share: logits_0, logits_1, ... is `logits`.

    Args:
        path: The file.
        logits: Name of the logits (before softmax), [N, K]; `logits` where neither this nor the next is given.
        probabilities: Name of the probabilities, [N, K]; `probs` or `probabilities` where neither is given.
        labels: Name of the true classes, [N]; `labels`, `label`, `y`, `targets` or `target` where it is not given.

    Raises:
        ValueError: Where the file cannot be read, an array is missing or ambiguous, or what it holds is wrong.
    """
    path = Path(path)
    arrays = read_arrays(path)
    return predictions_of(arrays, source=path, logits=logits, probabilities=probabilities, labels=labels)


def predictions_of(
    arrays: Arrays,
    *,
    source: Path | str,
    logits: str | None = None,
    probabilities: str | None = None,
    labels: str | None = None,
) -> Predictions:
    """The predictions among named arrays, by the rules of `read_predictions`; `source` is what errors call the arrays.

    Args:
        arrays: The arrays by name.
        source: What errors call them.
        logits: Name of the logits.
        probabilities: Name of the probabilities.
        labels: Name of the true classes.
    """
    name, values, are_logits = _values(source, arrays, logits=logits, probabilities=probabilities)
    truth = _labels(source, arrays, labels)
    try:
        if not are_logits:
            return Predictions.from_probabilities(values, truth)
        predictions = Predictions(values, truth)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None
    _refuse_probabilities(source, name, values)
    return predictions


def read_scores(path: Path | str, *, logits: str | None = None, probabilities: str | None = None) -> Scores:
    """Read predictions without labels, by the rules of `read_predictions`.

    Args:
        path: The file.
        logits: Name of the logits.
        probabilities: Name of the probabilities.
    """
    path = Path(path)
    name, values, are_logits = _values(path, read_arrays(path), logits=logits, probabilities=probabilities)
    try:
        scores = Scores(values) if are_logits else scores_of_probabilities(values)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if are_logits:
        _refuse_probabilities(path, name, values)
    return scores


def read_labels(path: Path | str, name: str | None = None) -> Tensor | None:
    """The labels in a file; None if it has none under a usual name and no name was given."""
    path = Path(path)
    arrays = read_arrays(path)
    if name is None and not any(each in arrays for each in LABELS):
        return None
    return _labels(path, arrays, name)


def _values(
    source: Path | str, arrays: Arrays, *, logits: str | None, probabilities: str | None
) -> tuple[str, Tensor, bool]:
    """Name and values of the scores, and whether they are logits."""
    if logits and probabilities:
        raise ArgumentError("Give `logits` or `probabilities`, not both.", "logits", "probabilities")
    name = logits or probabilities or _usual_scores(source, arrays)
    are_logits = bool(logits) or (not probabilities and name in LOGITS)
    values = look_up(f"array in {source}", name, arrays)()
    if values.ndim == 1 or values.shape[1:] == (1,):
        raise ValueError(f"{source}: {name!r} must have a column for each of at least 2 classes, got one column.")
    if values.dtype == torch.bool or values.is_complex() or values.ndim != 2:
        raise ValueError(f"{source}: {name!r} must hold real numbers [N, K], got {values.dtype} {list(values.shape)}.")
    return name, values if values.is_floating_point() else values.double(), are_logits


def _usual_scores(source: Path | str, arrays: Arrays) -> str:
    usual = [name for name in (*LOGITS, *PROBABILITIES) if name in arrays]
    if len(usual) == 1:
        return usual[0]
    have = f"both {usual[0]!r} and {usual[1]!r}" if usual else "neither 'logits' nor 'probs'"
    raise ArgumentError(
        f"{source} has {have}: say which to take with `logits` or `probabilities`. {_holds(arrays)}",
        "logits",
        "probabilities",
    )


def _refuse_probabilities(source: Path | str, name: str, logits: Tensor) -> None:
    if are_probabilities(logits):
        raise ArgumentError(
            f"{source}: the rows of {name!r}, taken as logits, all lie in [0, 1] and sum to 1, as only probabilities "
            "do: if they are, name them with `probabilities`.",
            "probabilities",
        )


def _labels(source: Path | str, arrays: Arrays, name: str | None) -> Tensor:
    chosen = name or _first(LABELS, arrays)
    if chosen is None:
        raise ArgumentError(f"{source} has no labels: name them with `labels`. {_holds(arrays)}", "labels")
    values = look_up(f"array in {source}", chosen, arrays)()
    try:
        return whole_labels(values)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None


def _first(names: Sequence[str], arrays: Arrays) -> str | None:
    return next((name for name in names if name in arrays), None)


def _holds(arrays: Arrays) -> str:
    return f"It holds: {', '.join(arrays) or 'nothing'}."
