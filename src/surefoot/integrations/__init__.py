"""surefoot in loops that are not its own. Packages that are not surefoot's are imported when they are used."""

from surefoot.integrations.batch import batch_of
from surefoot.integrations.lightning import lightning_callback
from surefoot.integrations.logits import logits_of
from surefoot.integrations.watch import Watch

__all__ = ["Watch", "batch_of", "lightning_callback", "logits_of"]
