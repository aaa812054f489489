"""The protocol of loggers, and a guard that keeps a failing one from stopping training."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Logger(Protocol):
    """Takes numbers by step. Anything with these three methods can be a sink of a watch."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Take the numbers of one step, under `split/quantity`."""
        ...

    def log_config(self, config: Mapping[str, Any]) -> None:
        """The configuration of the run, nested."""
        ...

    def finish(self) -> None:
        """Is called last."""
        ...


class Guarded:
    """A logger that never stops training: its failures are one warning, and it is tried again next time."""

    def __init__(self, logger: Logger) -> None:
        if not isinstance(logger, Logger) or isinstance(logger, type):
            raise ValueError(f"`sinks` must have `log`, `log_config` and `finish`, got {logger!r}.")
        self.logger = logger
        self._warned = False

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Pass on."""
        self._try(lambda: self.logger.log(values, step))

    def log_config(self, config: Mapping[str, Any]) -> None:
        """Pass on."""
        self._try(lambda: self.logger.log_config(config))

    def finish(self) -> None:
        """Pass on."""
        self._try(self.logger.finish)

    def _try(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # whatever it is: the numbers are in the run folder too
            if not self._warned:
                self._warned = True
                kind = type(self.logger).__name__
                warnings.warn(
                    f"The logger {kind} failed and may miss numbers; training goes on, and this is the only warning. "
                    f"{type(error).__name__}: {error}",
                    RuntimeWarning,
                    stacklevel=4,
                )


def flattened(config: Mapping[str, Any], *, prefix: str = "") -> dict[str, Any]:
    """A nested mapping as one of dotted keys.

    >>> flattened({"optimizer": {"name": "sgd", "lr": 0.1}, "seed": 0})
    {'optimizer.name': 'sgd', 'optimizer.lr': 0.1, 'seed': 0}
    """
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat |= flattened(value, prefix=f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat
