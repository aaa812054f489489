"""Predictions in files."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from surefoot.io.arrays import Arrays, read_arrays
from surefoot.predictions import Predictions
from surefoot.registry import look_up

LOGITS = ("logits",)
PROBABILITIES = ("probs", "probabilities")
LABELS = ("labels", "label", "y", "targets", "target")


class Names(NamedTuple):
    """How errors call what the caller can say: the names of the three arrays."""

    logits: str
    probabilities: str
    labels: str


_OPTIONS = Names("--logits", "--probs", "--labels")
ARGUMENTS = Names("`logits`", "`probabilities`", "`labels`")


def read_predictions(
    path: Path | str, *, logits: str | None = None, probabilities: str | None = None, labels: str | None = None
) -> Predictions:
    """The predictions in a file; arrays that are not named are looked for under their usual names.

    Nothing is guessed from values: an array is logits or probabilities by its name or because the caller says so. In
    csv and parquet an array of several columns goes by what their names share: logits_0, logits_1, ... is `logits`.
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
    names: Names = _OPTIONS,
) -> Predictions:
    """The predictions among named arrays, by the same rules; `source` is what errors call the arrays."""
    scores = _scores(source, arrays, logits=logits, probabilities=probabilities, names=names)
    truth = _whole(source, _named(source, arrays, labels, LABELS, option=names.labels))
    try:
        return scores(truth)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None


def read_scores(path: Path, *, logits: str | None = None, probabilities: str | None = None) -> Predictions:
    """The same without labels; the labels of what is returned are all 0."""
    scores = _scores(path, read_arrays(path), logits=logits, probabilities=probabilities, names=_OPTIONS)
    try:
        return scores(None)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def read_labels(path: Path, name: str | None = None) -> Tensor | None:
    """The labels in a file; None if it has none under a usual name and no name was given."""
    arrays = read_arrays(path)
    if name is None and not any(each in arrays for each in LABELS):
        return None
    return _whole(path, _named(path, arrays, name, LABELS, option="--labels"))


def _scores(
    path: Path | str, arrays: Arrays, *, logits: str | None, probabilities: str | None, names: Names
) -> Callable[[Tensor | None], Predictions]:
    if logits and probabilities:
        raise ValueError(f"Give {names.logits} or {names.probabilities}, not both.")
    usual = [name for name in (*LOGITS, *PROBABILITIES) if name in arrays]
    if not (logits or probabilities):
        if len(usual) != 1:
            have = f"both {usual[0]!r} and {usual[1]!r}" if usual else "neither 'logits' nor 'probs'"
            raise ValueError(
                f"{path} has {have}: say which to take with {names.logits} or {names.probabilities}. {_holds(arrays)}"
            )
        logits, probabilities = (usual[0], None) if usual[0] in LOGITS else (None, usual[0])
    name = logits or probabilities or ""
    values = _named(path, arrays, name, (), option=names.logits if logits else names.probabilities)
    if values.ndim == 1 or values.shape[1:] == (1,):
        raise ValueError(f"{path}: {name!r} must have a column for each of at least 2 classes, got one column.")
    if values.dtype == torch.bool or values.is_complex() or values.ndim != 2:
        raise ValueError(f"{path}: {name!r} must hold real numbers [N, K], got {values.dtype} {list(values.shape)}.")
    if not values.is_floating_point():
        values = values.double()

    def predictions(labels: Tensor | None) -> Predictions:
        truth = torch.zeros(len(values), dtype=torch.int64) if labels is None else labels
        if probabilities:
            return Predictions.from_probabilities(values, truth)
        found = Predictions(values, truth)
        _refuse_probabilities(values, name, option=names.probabilities)
        return found

    return predictions


def _refuse_probabilities(logits: Tensor, name: str, *, option: str) -> None:
    low, high = logits.aminmax()
    if low >= 0 and high <= 1 and bool(((logits.sum(dim=1, dtype=torch.float64) - 1).abs() <= 1e-3).all()):
        raise ValueError(
            f"the rows of {name!r}, taken as logits, all lie in [0, 1] and sum to 1, as only probabilities do: "
            f"if they are, name them with {option}."
        )


def _whole(path: Path | str, labels: Tensor) -> Tensor:
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.is_floating_point():
        whole = labels.long()
        if not torch.equal(whole.to(labels.dtype), labels):
            raise ValueError(f"{path}: `labels` must be whole numbers, got others among them.")
        return whole
    return labels.long() if labels.dtype != torch.bool else labels


def _named(path: Path | str, arrays: Arrays, name: str | None, usual: Iterable[str], *, option: str) -> Tensor:
    if name is None:
        name = next((each for each in usual if each in arrays), None)
        if name is None:
            raise ValueError(f"{path} has no labels: name them with {option}. {_holds(arrays)}")
    return look_up(f"array in {path}", name, arrays)()


def _holds(arrays: Arrays) -> str:
    return f"It holds: {', '.join(arrays) or 'nothing'}."
