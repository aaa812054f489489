"""surefoot in loops that are not its own. Packages that are not surefoot's are imported when they are used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surefoot.integrations.huggingface import calibration_metrics, huggingface_callback
    from surefoot.integrations.lightning import lightning_callback
    from surefoot.integrations.sam_trainer import SAMTrainerMixin
    from surefoot.watch.batch import batch_of
    from surefoot.watch.logits import logits_of
    from surefoot.watch.watch import Watch

_FILES = {
    "SAMTrainerMixin": "sam_trainer",
    "Watch": "watch",
    "batch_of": "batch",
    "calibration_metrics": "huggingface",
    "huggingface_callback": "huggingface",
    "lightning_callback": "lightning",
    "logits_of": "logits",
}

__all__ = [
    "SAMTrainerMixin",
    "Watch",
    "batch_of",
    "calibration_metrics",
    "huggingface_callback",
    "lightning_callback",
    "logits_of",
]


def __getattr__(name: str) -> Any:  # so that one who exports a model does not load the training loop
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_FILES[name]}"), name)
