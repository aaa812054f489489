"""A watch as a callback of Hugging Face's trainer, and what its `compute_metrics` can say of calibration."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from surefoot.data import Split
from surefoot.integrations._package import imported
from surefoot.integrations.loggers import Logger
from surefoot.losses import CrossEntropy, Lifted
from surefoot.predictions import Predictions
from surefoot.training.observers import CalibrationObserver, MarginsObserver
from surefoot.watch.batch import BatchOf, batch_of, check_classes
from surefoot.watch.logits import LogitsOf, logits_of
from surefoot.watch.seen import Seen, current_process_group
from surefoot.watch.watch import DEFAULT_OBSERVERS, Watch

_STATE = "surefoot_watch.pt"  # beside the trainer's own files of a checkpoint


def calibration_metrics(*, num_bins: int = 15, logits_of: LogitsOf = logits_of) -> Callable[[Any], dict[str, float]]:
    """A function for `Trainer(compute_metrics=...)`: accuracy, NLL, confidence, ECE, KCE and margins of one class each.

    >>> found = calibration_metrics()((np.eye(3), np.array([0, 1, 0])))
    >>> round(found["accuracy"], 4), sorted(found)[:3]
    (0.6667, ['accuracy', 'confidence', 'ece'])
    """
    calibration, margins = CalibrationObserver(num_bins=num_bins), MarginsObserver()

    def compute_metrics(evaluated: Any) -> dict[str, float]:
        said = Predictions(*_evaluated(evaluated, logits_of))
        split = {"eval": Split(said.logits, said.labels)}
        seen = Seen(0, nn.Identity(), Lifted(CrossEntropy()), split, known={"eval": said})
        row = {**calibration(seen), **margins(seen)}
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

    A callback is not shown the batches, so the first `num_train` samples of the training set are looked at each `every`
    steps. What is held out is seen where the trainer evaluates it, without another pass: give
    `compute_metrics=callback.compute_metrics`. It goes by `test`, and several evaluation sets by their own names. The
    state lies in the trainer's checkpoints; training that resumes from one goes on behind the rows written then.
    """
    if num_train < 1:
        raise ValueError(f"`num_train` must be at least 1, got {num_train}.")
    base: Any = imported("transformers", extra="hf", needed_by="The Hugging Face callback").TrainerCallback
    metrics_of = calibration_metrics(logits_of=logits_of)

    class WatchCallback(base):  # type: ignore[misc]
        """Looks at what the trainer trains."""

        def __init__(self) -> None:
            self.watch: Watch | None = None
            self._evaluated: tuple[Tensor, Tensor] | None = None

        def compute_metrics(self, evaluated: Any) -> dict[str, float]:
            """For `Trainer(compute_metrics=...)`."""
            self._evaluated = _evaluated(evaluated, logits_of)
            return metrics_of(evaluated)

        def on_train_begin(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
            _check(parts["model"])
            sample = _sample(parts["train_dataloader"], num_train)
            self.watch = Watch(
                parts["model"],
                loss,
                folder=folder,
                optimizer=parts.get("optimizer"),
                every=every,
                splits={} if sample is None else {"train": sample},
                observers=observers,
                sinks=sinks,
                batch_of=batch_of,
                logits_of=logits_of,
                num_steps=state.max_steps if state.max_steps > 0 else None,
                seed=args.seed,
                overwrite=overwrite,
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
                    "Nothing is seen of the evaluation set: give the trainer "
                    "`compute_metrics=callback.compute_metrics`.",
                    RuntimeWarning,
                    stacklevel=2,
                )
                return
            self.watch.see(*evaluated, split=_split(parts.get("metrics") or {}), of_all=True)

        def on_save(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
            place = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            if self.watch is not None and current_process_group().rank == 0 and place.is_dir():
                torch.save(self.watch.state_dict(), place / _STATE)

        def on_train_end(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
            if self.watch is not None:
                self.watch.finish()
                self.watch = None

    return WatchCallback()


class _Sample:
    """Some samples of a data set, this process's part of them, in batches as its loader would make them."""

    def __init__(self, loader: Any, *, number: int) -> None:
        self._dataset, self._collate = loader.dataset, loader.collate_fn
        self._rows = range(min(number, len(loader.dataset)))
        self._size = getattr(loader, "total_batch_size", None) or loader.batch_size or 8

    def __iter__(self) -> Iterator[Any]:
        mine = self._rows[current_process_group().part(len(self._rows))]
        for start in range(0, len(mine), self._size):
            yield self._collate([self._dataset[row] for row in mine[start : start + self._size]])


def _sample(loader: Any, number: int) -> _Sample | None:
    dataset = getattr(loader, "dataset", None)
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        warnings.warn(
            "Nothing is seen of the training set: it is a stream, and looking would take samples from training.",
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
    looked = " or ".join(str(place.parent) for place in places)
    raise ValueError(
        f"Training goes on at step {step}, and {_STATE} of the watch is not in {looked}: name the checkpoint in the "
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
    said, labels = (getattr(evaluated, name, None) for name in ("predictions", "label_ids"))
    if said is None and isinstance(evaluated, tuple):
        said, labels = evaluated
    if labels is None:
        raise ValueError("`compute_metrics` needs labels, and the samples have none: predict without it.")
    return logits_of(_tensors(said)), check_classes(_tensors(labels))


def _tensors(held: Any) -> Any:
    if isinstance(held, np.ndarray):
        return torch.from_numpy(held)
    if isinstance(held, Mapping):
        return {key: _tensors(value) for key, value in held.items()}
    return tuple(_tensors(value) for value in held) if isinstance(held, tuple | list) else held
