"""Which samples a step sees."""

from collections.abc import Callable

import torch
from torch import Tensor

from surefoot.data import Split
from surefoot.losses import Batch


class Batches:
    """The batch of every step, as a pure function of the step: nothing to save, nothing to restore.

    `batch_size` None means all samples, in order, every time. Otherwise each epoch is a fresh permutation drawn
    from `seed` and the number of the epoch; the last batch of an epoch may be smaller. `augment(inputs, step=step)`
    changes inputs, the same way whenever the step is asked for.
    """

    def __init__(
        self,
        split: Split,
        *,
        batch_size: int | None,
        seed: int,
        augment: Callable[..., Tensor] | None = None,
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"`batch_size` must be at least 1, got {batch_size}.")
        self.split = split
        self.batch_size = min(batch_size or len(split.labels), len(split.labels))
        self.shuffled = batch_size is not None
        self.seed = seed
        self.augment = augment
        self._epoch = -1
        self._order = torch.arange(len(split.labels), device=split.labels.device)

    @property
    def steps_per_epoch(self) -> int:
        """How many batches hold all samples once."""
        return -(-len(self.split.labels) // self.batch_size)

    def __call__(self, step: int) -> Batch:
        indices = self._indices(step)
        inputs = self.split.inputs[indices] if self.shuffled else self.split.inputs
        if self.augment is not None:
            inputs = self.augment(inputs, step=step)
        return Batch(inputs, self.split.labels[indices], indices)

    def _indices(self, step: int) -> Tensor:
        if not self.shuffled:
            return self._order
        number, position = divmod(step, self.steps_per_epoch)
        if number != self._epoch:
            self._epoch, self._order = number, self._permutation(number)
        return self._order[position * self.batch_size : (position + 1) * self.batch_size]

    def _permutation(self, number: int) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + number)
        return torch.randperm(len(self.split.labels), generator=generator, device="cpu").to(self.split.labels.device)
