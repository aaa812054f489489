"""surefoot in loops that are not its own. Packages that are not surefoot's are imported when they are used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surefoot.integrations.huggingface import calibration_metrics, huggingface_callback
    from surefoot.integrations.lightning import lightning_callback
    from surefoot.integrations.sam_trainer import SAMTrainerMixin
    from surefoot.watch import Watch, batch_of, logits_of

_MODULES = {
    "SAMTrainerMixin": "surefoot.integrations.sam_trainer",
    "Watch": "surefoot.watch",
    "batch_of": "surefoot.watch",
    "calibration_metrics": "surefoot.integrations.huggingface",
    "huggingface_callback": "surefoot.integrations.huggingface",
    "lightning_callback": "surefoot.integrations.lightning",
    "logits_of": "surefoot.watch",
}

__all__ = [  # noqa: RUF022 (grouped)
    # callbacks and mixins of trainers
    "SAMTrainerMixin",
    "calibration_metrics",
    "huggingface_callback",
    "lightning_callback",
    # a plain loop
    "Watch",
    "batch_of",
    "logits_of",
]


def __getattr__(name: str) -> Any:  # so that one who exports a model does not load the training loop
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
