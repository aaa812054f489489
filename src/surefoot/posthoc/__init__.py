"""Maps of logits fitted after training: `fit(predictions)` returns a map from logits to logits."""

from surefoot.posthoc.temperature import Temperature

POSTHOC: dict[str, type[Temperature]] = {"temperature": Temperature}

__all__ = ["POSTHOC", "Temperature"]
