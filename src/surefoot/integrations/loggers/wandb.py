"""Weights & Biases."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from surefoot.integrations._package import imported


class WandB:
    """A run of Weights & Biases, offline by default: `wandb sync` sends it later. Needs the extra `wandb`.

    `options` go to `wandb.init`.
    """

    def __init__(
        self,
        project: str,
        *,
        folder: str | Path | None = None,
        mode: Literal["offline", "online"] = "offline",
        **options: Any,
    ) -> None:
        wandb = imported("wandb", extra="wandb", needed_by="The logger WandB")
        self._run = wandb.init(project=project, dir=None if folder is None else str(folder), mode=mode, **options)

    def log(self, values: Mapping[str, float], step: int) -> None:
        """One point per quantity."""
        self._run.log(dict(values), step=step)

    def log_config(self, config: Mapping[str, Any]) -> None:
        """Into the run's config."""
        self._run.config.update(dict(config), allow_val_change=True)  # a resumed run says it again

    def finish(self) -> None:
        """End the run."""
        self._run.finish()
