"""surefoot in loops that are not its own. Packages that are not surefoot's are imported when they are used."""

from surefoot.integrations.batch import batch_of
from surefoot.integrations.huggingface import calibration_metrics, huggingface_callback
from surefoot.integrations.lightning import lightning_callback
from surefoot.integrations.logits import logits_of
from surefoot.integrations.sam_trainer import SAMTrainerMixin
from surefoot.integrations.watch import Watch

__all__ = [
    "SAMTrainerMixin",
    "Watch",
    "batch_of",
    "calibration_metrics",
    "huggingface_callback",
    "lightning_callback",
    "logits_of",
]
