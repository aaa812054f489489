"""TensorBoard."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surefoot.integrations._package import imported


class TensorBoard:
    """Scalars for TensorBoard in `folder`; the configuration is a text. Needs the extra `tensorboard`."""

    def __init__(self, folder: str | Path) -> None:
        imported("tensorboard", extra="tensorboard", needed_by="The logger TensorBoard")
        from torch.utils.tensorboard.writer import SummaryWriter

        self._writer: Any = SummaryWriter(log_dir=str(folder))

    def log(self, values: Mapping[str, float], step: int) -> None:
        """One scalar per quantity."""
        for key, value in values.items():
            self._writer.add_scalar(key, value, step)

    def log_config(self, config: Mapping[str, Any]) -> None:
        """As text: `add_hparams` would make a run of its own and drop keys that other runs do not have."""
        indented = "\n".join(f"    {line}" for line in json.dumps(config, indent=1, default=str).splitlines())
        self._writer.add_text("config", indented, 0)  # four blanks make it a block of code

    def finish(self) -> None:
        """Write what is left."""
        self._writer.close()
