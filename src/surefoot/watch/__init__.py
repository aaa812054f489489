"""Watching a training loop of one's own."""

from surefoot.watch.batch import BatchOf, batch_of
from surefoot.watch.logger import Logger
from surefoot.watch.logits import LogitsOf, logits_of
from surefoot.watch.watch import DEFAULT_OBSERVERS, Watch

__all__ = [  # noqa: RUF022 (grouped)
    # the watch
    "DEFAULT_OBSERVERS",
    "Watch",
    # what batches and models give
    "BatchOf",
    "LogitsOf",
    "batch_of",
    "logits_of",
    # where numbers go beside the run folder
    "Logger",
]
