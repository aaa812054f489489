"""Random numbers of an objective, the same however often it is asked about one batch."""

from typing import Any

import numpy as np
from torch import Tensor

from surefoot.losses.objective import Batch
from surefoot.predictions import Predictions


class Draws:
    """A generator for every batch, as a pure function of `seed`, the steps done and the samples in the batch.

    Both passes of a SAM step draw the same, observers disturb nothing, and a resumed run goes on as it would have.
    `after_step` counts the steps; where nobody calls it, the draws depend on the samples alone.
    """

    def __init__(self, *, seed: int) -> None:
        if seed < 0:
            raise ValueError(f"`seed` must be at least 0, got {seed}.")
        self.seed = seed
        self.num_steps = 0

    def generator(self, batch: Batch) -> np.random.Generator:
        """The generator of this batch in the present step."""
        key = (int(batch.indices[0]), int(batch.indices.sum())) if len(batch.indices) else (0, 0)
        return np.random.default_rng([self.seed, self.num_steps, *(number + 2**32 for number in key)])

    def after_step(self, batch: Batch, logits: Tensor) -> None:
        """One step more."""
        self.num_steps += 1

    def after_epoch(self, validation: Predictions | None) -> None:
        """Nothing to do."""

    def state_dict(self) -> dict[str, Any]:
        """The steps done."""
        return {"num_steps": self.num_steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.num_steps = state["num_steps"]
