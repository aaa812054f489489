"""Watch a training loop that is not surefoot's."""

import math
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from surefoot.data import Split
from surefoot.eval_mode import evaluating
from surefoot.losses import CrossEntropy, Lifted
from surefoot.predictions import Predictions
from surefoot.registry import look_up
from surefoot.runs.check_options import check_options
from surefoot.scores import are_probabilities
from surefoot.training.observers import OBSERVERS
from surefoot.training.process_group import ProcessGroup
from surefoot.watch._folder import WatchedFolder, watched_spec
from surefoot.watch.batch import BatchOf, Rows, batch_of, check_classes, joined, rows_of
from surefoot.watch.logger import Guarded, Logger
from surefoot.watch.logits import Logits, LogitsOf, logits_of
from surefoot.watch.optimizer_tree import gradients_per_step, innermost
from surefoot.watch.snapshot import PredictedSnapshot, without_a_trace

DEFAULT_OBSERVERS = ("calibration", "margins", "reliability")
_OFFERED = {name: OBSERVERS[name] for name in (*DEFAULT_OBSERVERS, "scores", "curvature", "hessian")}


class Watch:
    """Evaluates a model while a loop of yours trains it, and writes the run folder that surefoot's pages read.

    Call `step(batch)` after every optimizer step. At the first step and each `every`-th it evaluates that batch, as
    split `train`, and every loader of `splits`; `evaluate(loader)` does so at once. An evaluation is one forward pass
    in eval mode. Weights, gradients, modes and generators stay as they are: training gives the same bits as without.
    Every process of a group must make the same calls. Metrics cover the samples of all processes; rank 0 writes.

    Args:
        model: What is trained; `DistributedDataParallel` may be around it.
        loss: Of logits and labels, per sample or their mean; cross-entropy if not given.
        folder: Run folder to write.
        optimizer: For its name and options in the record, and the gradients that a step takes.
        every: Steps between two evaluations.
        splits: Loaders by split. Held-out samples are called `test`, the split that pages and diagnoses read.
        observers: What is measured; "curvature" and "hessian" cost some gradients more. A mapping gives options.
        sinks: Loggers that get the numbers too.
        batch_of: Takes inputs and labels out of a batch.
        logits_of: Takes the logits out of what the model returns.
        num_steps: Length of the training, where it is planned.
        seed: Seed of the training, for the record.
        overwrite: Replace the run that the folder holds.

    >>> import tempfile
    >>> model, batch = nn.Linear(2, 3), (torch.eye(2), torch.tensor([0, 1]))
    >>> with tempfile.TemporaryDirectory() as folder, Watch(model, folder=folder, splits={"test": [batch]}) as watch:
    ...     row = watch.step(batch)
    >>> row["test/ece"] == row["train/ece"]
    True
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Any = None,
        *,
        folder: str | Path,
        optimizer: Optimizer | None = None,
        every: int = 100,
        splits: Mapping[str, Iterable[Any]] | None = None,
        observers: Sequence[str] | Mapping[str, Mapping[str, Any]] = DEFAULT_OBSERVERS,
        sinks: Sequence[Logger] = (),
        batch_of: BatchOf = batch_of,
        logits_of: LogitsOf = logits_of,
        num_steps: int | None = None,
        seed: int = 0,
        overwrite: bool = False,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise ValueError(f"`model` must be a torch module, got {type(model).__name__}.")
        if loss is not None and not callable(loss):
            raise ValueError(f"`loss` must be a function of logits and labels, got {type(loss).__name__}.")
        if every < 1:
            raise ValueError(f"`every` must be at least 1, got {every}.")
        if isinstance(observers, str):
            raise ValueError(f"`observers` must be names in a list, got {observers!r}.")
        self.every, self.num_steps, self.seed = every, num_steps, seed
        self._loss, self._optimizer = CrossEntropy() if loss is None else loss, innermost(optimizer)
        self._options = dict(observers) if isinstance(observers, Mapping) else {name: {} for name in observers}
        made = {name: look_up("observer of a watch", name, _OFFERED) for name in self._options}
        for name, maker in made.items():
            check_options(f"observers.{name}", self._options[name], maker)
        self._observers = {name: maker(**self._options[name]) for name, maker in made.items()}
        self._curved = {name for name, each in self._observers.items() if getattr(each, "needs_curvature", False)}
        inner = model.module if isinstance(model, DistributedDataParallel) else model  # whose forward pass is alone
        self._model = Logits(inner, logits_of)
        self._splits = {} if splits is None else dict(splits)
        self._sinks = [Guarded(sink) for sink in sinks]
        self._batch_of, self._batch = batch_of, None
        self._folder = WatchedFolder(folder, overwrite=overwrite)
        self._step, self._begun, self._ended = 0, False, False
        self._evaluated_at: dict[str, int] = {}
        self._observing, self._trouble = 0.0, ""

    def step(self, batch: Any = None, *, step: int | None = None) -> dict[str, float] | None:
        """Count an optimizer step; evaluate its batch if that is due and return the row. `step` sets the count."""
        self._check_open()
        if step is not None and step < self._step:
            raise ValueError(f"`step` must count on through epochs: it was {self._step}, got {step}.")
        self._step = self._step + 1 if step is None else step
        self._batch = batch if batch is not None else self._batch
        return self.observe() if self.due(self._step) else None

    def due(self, step: int) -> bool:
        """Whether `step` evaluates at this count: the first time, and each `every`-th."""
        return not self._begun or step % self.every == 0

    def observe(self) -> dict[str, float]:
        """Evaluate the last batch and the loaders of `splits` now."""
        sources: dict[str, Iterable[Any]] = dict(self._splits)
        if self._batch is not None:
            sources.setdefault("train", [self._batch])
        if not sources:
            raise ValueError("There is nothing to evaluate: give `step` its batch, or the watch `splits`.")
        return self._evaluate(sources)

    def evaluate(self, loader: Iterable[Any], *, split: str = "test") -> dict[str, float]:
        """Evaluate a loader now, and the last batch if that has not been evaluated yet."""
        return self._evaluate({**self._pending(), split: loader})

    def measure(self, logits: Tensor, labels: Tensor, *, split: str = "test", of_all: bool = False) -> dict[str, float]:
        """Measure given logits, without curvature. `of_all`: they are of the samples of all processes."""
        return self._evaluate(self._pending(), {split: (logits, check_classes(labels))}, of_all=of_all)

    def predict(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Logits and labels of a batch in eval mode, for `measure` to take many at once."""
        logits, labels, _ = self._predict("batch", [batch])
        return logits, labels

    def finish(self, status: str = "done", reason: str = "") -> None:
        """Write how training ended to run.json, and close the sinks; a model that is not finite then has diverged."""
        if self._ended or not self._begun:
            return
        self._ended = True
        if ProcessGroup.current().rank == 0:
            if status == "done" and self._trouble:
                status, reason = "diverged", self._trouble
            self._folder.write(status, reason, seconds_observing=self._observing)
            for sink in self._sinks:
                sink.finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()
        elif isinstance(error, KeyboardInterrupt):
            self.finish("interrupted", "stopped on request")
        else:
            self.finish("failed", f"{type(error).__name__}: {error}")

    def state_dict(self) -> dict[str, Any]:
        """The count of steps, what the observers remember, and how far the rows go."""
        return {
            "step": self._step,
            "observing": self._observing,
            "observers": {name: each.state_dict() for name, each in self._observers.items()},
            "folder": self._folder.state_dict() if self._begun and ProcessGroup.current().rank == 0 else None,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state; rows written after it was saved are dropped, they come again."""
        if self._begun:
            raise ValueError("The watch has begun already: load the state before the first `step`.")
        if set(state["observers"]) != set(self._observers):
            wanted, got = sorted(self._observers), sorted(state["observers"])
            raise ValueError(f"`state` must be of the same observers, {wanted}, got {got}.")
        if state["folder"] is not None and ProcessGroup.current().rank == 0:
            self._folder.load_state_dict(state["folder"])
        for name, each in self._observers.items():
            each.load_state_dict(state["observers"][name])
        self._step, self._observing = state["step"], state["observing"]
        if state["folder"] is not None:
            self._begin()

    def _pending(self) -> dict[str, Iterable[Any]]:
        fresh = self._batch is not None and self._evaluated_at.get("train") != self._step
        return {"train": [self._batch]} if fresh and "train" not in self._splits else {}

    def _evaluate(
        self,
        sources: Mapping[str, Iterable[Any]],
        given: Mapping[str, tuple[Tensor, Tensor]] | None = None,
        *,
        of_all: bool = False,
    ) -> dict[str, float]:
        self._check_open()
        begun = time.perf_counter()
        for split, batches in sources.items():
            if isinstance(batches, tuple) and len(batches) == 2 and all(isinstance(part, Tensor) for part in batches):
                raise ValueError(f"{split} must be batches, got one pair of tensors: put it into a list.")
        parts = {split: (*self._predict(split, batches), False) for split, batches in sources.items()}
        parts |= {split: (*pair, None, of_all) for split, pair in (given or {}).items()}
        if not self._begun and any(are_probabilities(logits) for logits, *_ in parts.values()):
            warnings.warn(
                "`model` returns rows that sum to 1: probabilities, it seems, and they are taken for logits. Pass "
                "`logits_of=lambda output: output.log()`, or leave out the softmax.",
                RuntimeWarning,
                stacklevel=3,
            )
        self._begin(batch_size=next((len(labels) for _, labels, _, _ in parts.values()), None))
        row: dict[str, float] = {"step": self._step, "gradients": self._step * gradients_per_step(self._optimizer)}
        for split, (logits, labels, inputs, whole) in parts.items():
            row |= self._measured(split, logits, labels, inputs, of_all=whole)
            self._evaluated_at[split] = self._step
        row |= getattr(self._optimizer, "report", dict)()
        if ProcessGroup.current().rank == 0:
            self._folder.add(row)
            values = {key: value for key, value in row.items() if "/" in key}
            for sink in self._sinks:
                sink.log(values, self._step)
        self._observing += time.perf_counter() - begun
        return row

    def _check_open(self) -> None:
        if self._ended:
            raise ValueError("The watch has ended: `finish` was called.")

    def _begin(self, *, batch_size: int | None = None) -> None:
        if self._begun:
            return
        if ProcessGroup.current().rank == 0:
            self._folder.check()
            spec = watched_spec(
                self._model.model,
                self._loss,
                self._optimizer,
                observers=self._options,
                batch_size=batch_size,
                num_steps=self.num_steps,
                every=self.every,
                seed=self.seed,
            )
            self._folder.begin(spec, num_steps=self.num_steps)
            for sink in self._sinks:
                sink.log_config(spec.to_dict())
        self._begun = True

    def _predict(self, split: str, batches: Iterable[Any]) -> tuple[Tensor, Tensor, Tensor | Rows | None]:
        """Logits and labels of this process's samples, and the inputs if curvature is to be measured."""
        device = next((p.device for p in self._model.parameters()), torch.device("cpu"))
        logits: list[Tensor] = []
        labels: list[Tensor] = []
        kept: list[Tensor | Rows] = []
        with without_a_trace(self._model, batches):
            for batch in batches:
                given, wanted = self._batch_of(batch)
                labels.append(check_classes(wanted).to(device))
                inputs = rows_of(given).to(device)
                logits.append(self._model(inputs).detach())
                if self._curved:
                    kept.append(inputs)
        if not labels:
            raise ValueError(f"The loader of {split!r} gave no batch: is it an iterator that has ended?")
        return torch.cat(logits), torch.cat(labels), joined(kept) if kept else None

    def _measured(
        self, split: str, logits: Tensor, labels: Tensor, inputs: Tensor | Rows | None, *, of_all: bool
    ) -> dict[str, float]:
        group = ProcessGroup.current()
        whole = [part if of_all else group.gathered(part) for part in (logits, labels)]
        names = [name for name in self._observers if inputs is not None or name not in self._curved]
        if not bool(whole[0].isfinite().all()):
            before, self._trouble = self._trouble, f"logits of the {split} set are not finite at step {self._step}"
            if not before:
                warnings.warn(f"{self._trouble}: nothing can be measured there.", RuntimeWarning, stacklevel=5)
            return {f"{split}/{key}": math.nan for name in names for key in self._observers[name].quantities}
        self._trouble = ""
        if whole[0].device.type == "mps":  # has no float64, which the metrics accumulate in
            whole = [part.cpu() for part in whole]
        mine: Any = labels if inputs is None else inputs
        snapshot = PredictedSnapshot(
            self._step,
            self._model,
            Lifted(self._loss),
            {split: Split(mine, labels)},
            made={split: Predictions(*whole)},
        )
        row: dict[str, float] = {}
        with torch.inference_mode(False), self._full_precision(logits.device) if self._curved else nullcontext():
            for name in names:
                row |= self._observers[name](snapshot)
        return row

    @contextmanager
    def _full_precision(self, device: torch.device) -> Iterator[None]:
        # curvature needs all digits; a model that checkpoints is run again for its products, in the mode it then has
        with torch.autocast(device.type, enabled=False), evaluating(self._model):
            yield
