"""A watch as a callback of Lightning, under either of its two names."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from surefoot.integrations._package import imported
from surefoot.training.observers import CalibrationObserver
from surefoot.watch import DEFAULT_OBSERVERS, BatchOf, Logger, LogitsOf, Watch, batch_of, logits_of

Package = Literal["lightning", "pytorch_lightning"]
_MODULES: dict[Package, str] = {"lightning": "lightning.pytorch", "pytorch_lightning": "pytorch_lightning"}


def lightning_callback(
    folder: str | Path,
    *,
    loss: Any = None,
    every: int = 100,
    splits: Sequence[str] = ("test",),
    observers: Sequence[str] | Mapping[str, Mapping[str, Any]] = DEFAULT_OBSERVERS,
    sinks: Sequence[Logger] = (),
    batch_of: BatchOf = batch_of,
    logits_of: LogitsOf = logits_of,
    model_of: Callable[[Any], nn.Module] | None = None,
    seed: int = 0,
    overwrite: bool = False,
    package: Package | None = None,
) -> Any:
    """A callback for `Trainer(callbacks=[...])` that watches `fit` as `Watch` does, and logs to Lightning's loggers.

    Training batches are evaluated each `every` steps, in a forward pass of their own. Of the validation loop the logits
    are taken from what `validation_step` returns, a mapping with `logits` and `labels`; where it returns none, the
    module, or what `model_of(module)` gives, is called on the batch. `splits` names the validation loaders in their
    order; one that has no name takes that of the first with its number: `test`, `test-1`. The sanity check is left out,
    and so is `predict`, whose samples have no labels. The state goes into Lightning's checkpoints; a fit from one goes
    on behind the rows written then. Loss, NLL, accuracy, confidence, ECE and KCE of validation can be monitored by
    other callbacks, under `test/ece` and the like.

    The two packages do not know each other's callbacks: this is one of the package that is imported already, of
    `lightning` where that leaves it open, or of `package`.
    """
    if not splits:
        raise ValueError("`splits` must name the first validation loader at least, got none.")
    base: Any = imported(_MODULES[_package(package)], extra="lightning", needed_by="The Lightning callback").Callback

    class WatchCallback(_LightningHooks, base):  # type: ignore[misc]
        """Watches what Lightning trains."""

    make_watch = partial(
        Watch,
        loss=loss,
        folder=folder,
        every=every,
        observers=observers,
        sinks=sinks,
        batch_of=batch_of,
        logits_of=logits_of,
        seed=seed,
        overwrite=overwrite,
    )
    return WatchCallback(make_watch, splits=splits, logits_of=logits_of, model_of=model_of)


class _LightningHooks:
    """The hooks of Lightning's callbacks that a watch needs; a class of either package adds the others."""

    def __init__(
        self,
        make_watch: Callable[..., Watch],
        *,
        splits: Sequence[str],
        logits_of: LogitsOf,
        model_of: Callable[[Any], nn.Module] | None,
    ) -> None:
        self.watch: Watch | None = None
        self._make_watch, self._splits, self._logits_of, self._model_of = make_watch, splits, logits_of, model_of
        self._state: dict[str, Any] | None = None
        self._outputs: dict[int, list[tuple[Tensor, Tensor]]] = {}  # logits and labels by validation loader
        self._last = -1  # step that the last batch belongs to

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        _check(trainer)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self.watch = self._make_watch(
            pl_module if self._model_of is None else self._model_of(pl_module),
            optimizer=trainer.optimizers[0] if trainer.optimizers else None,
            num_steps=_planned(trainer),
        )
        if self._state is not None:
            self.watch.load_state_dict(self._state)
            self._state = None
        self._last = trainer.global_step

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        assert self.watch is not None
        step = trainer.global_step
        if step == self._last:  # a part of an accumulated batch
            return
        self._last = step
        with trainer.precision_plugin.forward_context() if self.watch.due(step) else nullcontext():
            row = self.watch.step(batch, step=step)
        if row is not None:
            _log(trainer, row)

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._outputs = {}

    def on_validation_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        if not _fitting(trainer):
            return
        pair = _returned(outputs, self._logits_of)
        if pair is None:
            assert self.watch is not None
            with trainer.precision_plugin.forward_context():
                pair = self.watch.predict(batch)
        self._outputs.setdefault(dataloader_idx, []).append(pair)

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if not _fitting(trainer):
            return
        assert self.watch is not None
        for number, parts in self._outputs.items():
            logits, labels = (torch.cat(list(each)) for each in zip(*parts, strict=True))
            name = self._splits[number] if number < len(self._splits) else f"{self._splits[0]}-{number}"
            row = self.watch.measure(logits, labels, split=name)
            keys = [f"{name}/{quantity}" for quantity in CalibrationObserver.quantities]
            monitored = {key: row[key] for key in keys if key in row}
            pl_module.log_dict(monitored, sync_dist=trainer.world_size > 1, batch_size=1)
            _log(trainer, row)
        self._outputs = {}

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        if self.watch is not None:
            self.watch.__exit__(type(exception), exception, None)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        if self.watch is not None:
            self.watch.finish(*(("interrupted", "stopped on request") if trainer.interrupted else ()))

    def state_dict(self) -> dict[str, Any]:
        return {} if self.watch is None else self.watch.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._state = state_dict or None  # Lightning restores before training starts


def _package(asked: Package | None) -> Package:
    if asked is not None:
        if asked not in _MODULES:
            raise ValueError(f"`package` must be lightning or pytorch_lightning, got {asked!r}.")
        return asked
    loaded = [name for name in _MODULES if _MODULES[name] in sys.modules]
    return loaded[0] if len(loaded) == 1 else "lightning"


def _check(trainer: Any) -> None:
    """Refuse what would go wrong without a word."""
    optimizer = trainer.optimizers[0] if trainer.optimizers else None
    if getattr(optimizer, "needs_closure", False) and trainer.accumulate_grad_batches != 1:
        raise ValueError(
            f"`accumulate_grad_batches` must be 1 with {type(optimizer).__name__}, got "
            f"{trainer.accumulate_grad_batches}: its step begins with gradients cleared, and what earlier batches left "
            "would be lost. Use larger batches."
        )


def _planned(trainer: Any) -> int | None:
    planned = trainer.estimated_stepping_batches  # asked once the loaders are there: it would make them
    return int(planned) if 0 < planned < float("inf") else None


def _fitting(trainer: Any) -> bool:
    return str(trainer.state.fn) in ("fit", "TrainerFn.FITTING") and not trainer.sanity_checking


def _returned(outputs: Any, logits_of: Callable[[Any], Tensor]) -> tuple[Tensor, Tensor] | None:
    """Logits and labels where `validation_step` returned both."""
    if not isinstance(outputs, Mapping) or "logits" not in outputs:
        return None
    labels = next((outputs[key] for key in ("labels", "label", "targets", "target") if key in outputs), None)
    return None if labels is None else (logits_of(outputs).detach(), labels)


def _log(trainer: Any, row: Mapping[str, float]) -> None:
    """To Lightning's loggers directly: `log_dict` of all quantities would cost more than measuring them."""
    values = {key: value for key, value in row.items() if "/" in key and "/bin_" not in key}
    if trainer.is_global_zero:
        for logger in trainer.loggers:
            logger.log_metrics(values, step=trainer.global_step)
