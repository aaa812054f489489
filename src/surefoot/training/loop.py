"""The loop."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from surefoot.data import Split
from surefoot.losses import Objective, memory_of
from surefoot.predictions import Predictions
from surefoot.training.batches import Batches
from surefoot.training.observers import Observer
from surefoot.training.process_group import ProcessGroup
from surefoot.training.rates import Constant
from surefoot.training.schedule import Schedule
from surefoot.training.snapshot import Diverged, Snapshot

EXPLODED = 100.0  # times the first loss: an edge-of-stability catapult stays far below


@dataclass(eq=False)
class Training:
    """A model on its way, and everything that its next step depends on."""

    model: nn.Module
    objective: Objective
    optimizer: torch.optim.Optimizer
    batches: Batches
    splits: Mapping[str, Split]
    observers: Mapping[str, Observer] = field(default_factory=dict)
    descent: Objective | None = None  # what the optimizer steps on, where that depends on the pass it is in
    reduction: Literal["mean", "sum"] = "mean"  # of the samples' losses
    clip_grad_norm: float | None = None
    rate: Callable[[float], float] = field(
        default_factory=Constant
    )  # of the share of the budget spent: what the learning rate is times
    after_step: Callable[[int], None] | None = None  # is called with the number of steps done, to collect weights
    process_group: ProcessGroup = field(default_factory=ProcessGroup)
    step: int = 0
    num_gradients: int = 0
    first_loss: float | None = None
    seconds_observing: float = 0.0

    def observe(self, *, last: bool = False) -> dict[str, float]:
        """One row: step, gradients spent, and what every observer measures; some measure only where it is the last."""
        begun = time.perf_counter()
        snapshot = Snapshot(self.step, self.model, self.objective, self.splits, self.process_group, last=last)
        row: dict[str, float] = {"step": self.step, "gradients": self.num_gradients}
        for observer in self.observers.values():
            row |= observer(snapshot)
        row |= getattr(self.optimizer, "report", dict)()
        self.seconds_observing += time.perf_counter() - begun
        return row

    def __post_init__(self) -> None:
        self._rates = [group["lr"] for group in self.optimizer.param_groups]
        self._stepping = self.process_group.wrapped(self.model)

    def advance(self, *, spent: float = 0.0) -> None:
        """One optimizer step, at a share `spent` of the budget; however often it calls the closure is counted."""
        factor = self.rate(spent)
        for group, lr in zip(self.optimizer.param_groups, self._rates, strict=True):
            group["lr"] = factor * lr
        whole = self.batches(self.step)
        batch = self.process_group.part_of(whole)
        objective = self.descent or self.objective
        returned: list[Tensor] = []
        params = [p for p in self.model.parameters() if p.requires_grad]

        def closure() -> Tensor:
            self.optimizer.zero_grad()
            with _first_output(self.model, into=returned):
                values = objective(self._stepping, batch)
            loss = self.process_group.backward(values, params, number=len(whole.labels), reduction=self.reduction)
            if self.clip_grad_norm is not None:
                nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_grad_norm)
            self.num_gradients += 1
            return loss

        loss = float(self.optimizer.step(closure))  # type: ignore[arg-type]
        self.first_loss = loss if self.first_loss is None else self.first_loss
        if not abs(loss) < float("inf"):
            raise Diverged(f"loss is {loss} at step {self.step}")
        if loss > EXPLODED * max(self.first_loss, 1.0):
            raise Diverged(f"loss exploded from {self.first_loss:.3g} to {loss:.3g} at step {self.step}")
        self.step += 1
        if self.after_step is not None:
            self.after_step(self.step)
        memory = memory_of(self.objective)
        if memory is not None:
            memory.after_step(batch, returned[0])
            if self.step % self.batches.steps_per_epoch == 0:
                memory.after_epoch(self._validation())

    def _validation(self) -> Predictions | None:
        if "validation" not in self.splits:
            return None
        return Snapshot(self.step, self.model, self.objective, self.splits, self.process_group).predictions(
            "validation"
        )


@contextmanager
def _first_output(model: nn.Module, *, into: list[Tensor]) -> Iterator[None]:
    """Put what the model returns first inside the block into an empty list; a list with something in it stays."""

    def note(module: nn.Module, given: Any, output: Tensor) -> None:
        if not into:
            into.append(output.detach())

    hook = model.register_forward_hook(note)
    try:
        yield
    finally:
        hook.remove()


def train(
    training: Training,
    *,
    budget: int,
    schedule: Schedule,
    record: Callable[[dict[str, float]], None],
    between: Callable[[], bool] = lambda: True,
) -> bool:
    """Step until `budget` gradients are spent, giving `record` a row at every scheduled step and at the end.

    `between` is called after every step, the place to save a checkpoint; where it returns False the loop pauses.
    Returns whether the budget was spent. Raises Diverged.
    """
    training.model.train()
    while True:
        spent = training.num_gradients >= budget
        if spent or schedule(training.step):
            record(training.observe(last=spent))
        if spent:
            return True
        training.advance(spent=training.num_gradients / budget)
        if not between():
            return False
