"""Data-parallel training: every process takes its part of each batch, and all take the same step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from surefoot.losses import Batch


@dataclass(frozen=True)
class ProcessGroup:
    """Which of how many processes this is; of one, everything here does nothing.

    Parts are contiguous and differ by one sample at most. Sums are those of all samples, never means of means.
    """

    rank: int = 0
    count: int = 1

    @classmethod
    def current(cls) -> "ProcessGroup":
        """The place of this process in torch's default group; alone where there is none."""
        return cls(dist.get_rank(), dist.get_world_size()) if dist.is_available() and dist.is_initialized() else cls()

    def part(self, number: int) -> slice:
        """Which of `number` samples are this process's."""
        return slice(number * self.rank // self.count, number * (self.rank + 1) // self.count)

    def part_of(self, batch: Batch) -> Batch:
        """The samples of a batch that are this process's."""
        if self.count == 1:
            return batch
        mine = self.part(len(batch.labels))
        return Batch(batch.inputs[mine], batch.labels[mine], batch.indices[mine])

    def wrapped(self, model: nn.Module) -> nn.Module:
        """The model whose backward pass averages gradients over the processes."""
        return model if self.count == 1 else DistributedDataParallel(model)

    def backward(
        self, values: Tensor, params: Sequence[Tensor], *, number: int, reduction: Literal["mean", "sum"]
    ) -> Tensor:
        """Gradients of the mean (or sum) of the losses of all `number` samples of a batch, of which `values` is a part.

        Returns the mean. Only those of `params` are computed: an objective that needs gradients in the inputs has taken
        them already. (Several processes leave that to DDP, which wants a whole backward pass.)
        """
        if self.count == 1:
            loss = values.mean()
            (values.sum() if reduction == "sum" else loss).backward(inputs=params)  # type: ignore[no-untyped-call]
            return loss.detach()
        total = values.sum()
        share = self.count if reduction == "sum" else self.count / number  # DDP divides by the count
        (share * total).backward()  # type: ignore[no-untyped-call]
        whole = total.detach().clone()
        dist.all_reduce(whole)
        return whole / number

    def gathered(self, part: Tensor, *, number: int | None = None) -> Tensor:
        """The parts of all processes in their order, [number, ...], in every process; all must call it.

        Each has its `part` of `number` samples; without a number the processes exchange how many each has.
        """
        if self.count == 1:
            return part
        sizes = [0] * self.count
        if number is None:
            dist.all_gather_object(sizes, len(part))
        else:
            sizes = [len(range(number)[ProcessGroup(rank, self.count).part(number)]) for rank in range(self.count)]
        padded = part.new_zeros(max(sizes), *part.shape[1:])
        padded[: len(part)] = part
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        return torch.cat([whole[:size] for whole, size in zip(parts, sizes, strict=True)])

    def broadcast(self, value: Any) -> Any:
        """The value of the first process, in all of them."""
        if self.count == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values, src=0)
        return values[0]

    def agreed(self, go_on: bool) -> bool:
        """The first process's decision, in all of them."""
        if self.count == 1:
            return go_on
        flag = torch.tensor([go_on], dtype=torch.uint8)
        dist.broadcast(flag, src=0)
        return bool(flag)
