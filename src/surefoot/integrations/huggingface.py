"""A watch as a callback of Hugging Face's trainer, and what its `compute_metrics` can say of calibration."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from surefoot.data import Split
from surefoot.integrations._package import imported
from surefoot.losses import CrossEntropy, Lifted
from surefoot.predictions import Predictions
from surefoot.training.observers import CalibrationObserver, MarginsObserver
from surefoot.training.process_group import ProcessGroup
from surefoot.watch import DEFAULT_OBSERVERS, BatchOf, Logger, LogitsOf, Watch, batch_of, logits_of
from surefoot.watch.batch import check_classes
from surefoot.watch.snapshot import PredictedSnapshot

_STATE = "surefoot_watch.pt"  # beside the trainer's own files of a checkpoint


def calibration_metrics(*, num_bins: int = 15, logits_of: LogitsOf = logits_of) -> Callable[[Any], dict[str, float]]:
    """A function for `Trainer(compute_metrics=...)`: accuracy, NLL, confidence, ECE, KCE and margins of one class each.

    >>> metrics = calibration_metrics()((np.eye(3), np.array([0, 1, 0])))
    >>> round(metrics["accuracy"], 4), sorted(metrics)[:3]
    (0.6667, ['accuracy', 'confidence', 'ece'])
    """
    calibration, margins = CalibrationObserver(num_bins=num_bins), MarginsObserver()

    def compute_metrics(evaluated: Any) -> dict[str, float]:
        made = Predictions(*_evaluated(evaluated, logits_of))
        split = {"eval": Split(made.logits, made.labels)}
        snapshot = PredictedSnapshot(0, nn.Identity(), Lifted(CrossEntropy()), split, made={"eval": made})
        row = {**calibration(snapshot), **margins(snapshot)}
        return {key.removeprefix("eval/"): value for key, value in row.items() if key != "eval/loss"}  # the trainer's

    return compute_metrics


def huggingface_callback(
    folder: str | Path,
    *,
    loss: Any = None,
    every: int = 100,
    num_train: int = 128,
    observers: Sequence[str] | Mapping[str, Mapping[str, Any]] = DEFAULT_OBSERVERS,
    sinks: Sequence[Logger] = (),
    batch_of: BatchOf = batch_of,
    logits_of: LogitsOf = logits_of,
    overwrite: bool = False,
) -> Any:
    """A callback for `Trainer(callbacks=[...])` that watches `train` as `Watch` does; has a `compute_metrics` too.

    A callback is not shown the batches, so the first `num_train` samples of the training set are evaluated each `every`
    steps. Held-out samples are measured where the trainer evaluates them, without another pass: give
    `compute_metrics=callback.compute_metrics`. They are called `test`, and several evaluation sets have their own
    names. The state lies in the trainer's checkpoints; training that resumes from one goes on behind the rows written
    then.
    """
    if num_train < 1:
        raise ValueError(f"`num_train` must be at least 1, got {num_train}.")
    base: Any = imported("transformers", extra="hf", needed_by="The Hugging Face callback").TrainerCallback

    class TrainerWatchCallback(_TrainerHooks, base):  # type: ignore[misc]
        """Watches what the trainer trains."""

    make_watch = partial(
        Watch,
        loss=loss,
        folder=folder,
        every=every,
        observers=observers,
        sinks=sinks,
        batch_of=batch_of,
        logits_of=logits_of,
        overwrite=overwrite,
    )
    return TrainerWatchCallback(make_watch, num_train=num_train, logits_of=logits_of)


class _TrainerHooks:
    """The hooks of the trainer's callbacks that a watch needs."""

    def __init__(self, make_watch: Callable[..., Watch], *, num_train: int, logits_of: LogitsOf) -> None:
        self.watch: Watch | None = None
        self._make_watch, self._num_train, self._logits_of = make_watch, num_train, logits_of
        self._metrics_of = calibration_metrics(logits_of=logits_of)
        self._evaluated: tuple[Tensor, Tensor] | None = None

    def compute_metrics(self, evaluated: Any) -> dict[str, float]:
        """For `Trainer(compute_metrics=...)`."""
        self._evaluated = _evaluated(evaluated, self._logits_of)
        return self._metrics_of(evaluated)

    def on_train_begin(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        _check(parts["model"])
        sample = _sample(parts["train_dataloader"], self._num_train)
        self.watch = self._make_watch(
            parts["model"],
            optimizer=parts.get("optimizer"),
            splits={} if sample is None else {"train": sample},
            num_steps=state.max_steps if state.max_steps > 0 else None,
            seed=args.seed,
        )
        if state.global_step > 0:
            self.watch.load_state_dict(torch.load(_state_file(args, state.global_step)))

    def on_step_end(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        if self.watch is not None:
            self.watch.step(step=state.global_step)

    def on_evaluate(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        evaluated, self._evaluated = self._evaluated, None
        if self.watch is None:  # not while it trains
            return
        if evaluated is None:
            warnings.warn(
                "Nothing is seen of the evaluation set: give the trainer `compute_metrics=callback.compute_metrics`.",
                RuntimeWarning,
                stacklevel=2,
            )
            return
        self.watch.measure(*evaluated, split=_split(parts.get("metrics") or {}), of_all=True)

    def on_save(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        place = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if self.watch is not None and ProcessGroup.current().rank == 0 and place.is_dir():
            torch.save(self.watch.state_dict(), place / _STATE)

    def on_train_end(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        if self.watch is not None:
            self.watch.finish()
            self.watch = None


class _Sample:
    """Some samples of a data set, this process's part of them, in batches as its loader would make them."""

    def __init__(self, loader: Any, *, number: int) -> None:
        self._dataset, self._collate = loader.dataset, loader.collate_fn
        self._rows = range(min(number, len(loader.dataset)))
        self._size = getattr(loader, "total_batch_size", None) or loader.batch_size or 8

    def __iter__(self) -> Iterator[Any]:
        mine = self._rows[ProcessGroup.current().part(len(self._rows))]
        for start in range(0, len(mine), self._size):
            yield self._collate([self._dataset[row] for row in mine[start : start + self._size]])


def _sample(loader: Any, number: int) -> _Sample | None:
    dataset = getattr(loader, "dataset", None)
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        warnings.warn(
            "Nothing is seen of the training set: it is a stream, and evaluating it would take samples from training.",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return _Sample(loader, number=number)


def _state_file(args: Any, step: int) -> Path:
    """Where the watch's state lies in the checkpoint that training resumes from; ValueError where it is not found."""
    named = args.resume_from_checkpoint if isinstance(args.resume_from_checkpoint, str) else None
    places = [Path(place) / _STATE for place in (named, Path(args.output_dir) / f"checkpoint-{step}") if place]
    for place in places:
        if place.is_file():
            return place
    searched = " or ".join(str(place.parent) for place in places)
    raise ValueError(
        f"Training goes on at step {step}, and {_STATE} of the watch is not in {searched}: name the checkpoint in the "
        "trainer's arguments too (`resume_from_checkpoint`), or begin anew with another folder."
    )


def _check(model: nn.Module) -> None:
    """Refuse a model that does not choose one class of several."""
    problem = getattr(getattr(model, "config", None), "problem_type", None)
    if problem not in (None, "single_label_classification"):
        raise ValueError(
            f"`model` must classify, one class per sample, got problem_type {problem!r}: multi-label targets and "
            "regression have no calibration of one predicted class."
        )


def _split(metrics: Mapping[str, Any]) -> str:
    """`test` of the one evaluation set, or the name of one of several: in keys `eval_NAME_ece`."""
    named = next((key for key in metrics if key.endswith("_ece")), "eval_ece")
    return named.removesuffix("_ece").removeprefix("eval").removeprefix("_") or "test"


def _evaluated(evaluated: Any, logits_of: LogitsOf) -> tuple[Tensor, Tensor]:
    """Logits and labels of what the trainer gives `compute_metrics`."""
    outputs, labels = (getattr(evaluated, name, None) for name in ("predictions", "label_ids"))
    if outputs is None and isinstance(evaluated, tuple):
        outputs, labels = evaluated
    if labels is None:
        raise ValueError("`compute_metrics` needs labels, and the samples have none: predict without it.")
    return logits_of(_tensors(outputs)), check_classes(_tensors(labels))


def _tensors(arrays: Any) -> Any:
    if isinstance(arrays, np.ndarray):
        return torch.from_numpy(arrays)
    if isinstance(arrays, Mapping):
        return {key: _tensors(value) for key, value in arrays.items()}
    return tuple(_tensors(value) for value in arrays) if isinstance(arrays, tuple | list) else arrays
