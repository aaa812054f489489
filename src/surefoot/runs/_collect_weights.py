"""When a run collects weights, for the ensembles that are made of several steps of one training."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from surefoot.ensembles import SWAG, BSAMSampling
from surefoot.runs._build_optimizer import gradients_per_step
from surefoot.runs.spec import RunSpec

_FEWEST = 2  # one set of weights has no spread, and SWAG would be the model of that step


@dataclass(frozen=True)
class CollectionSchedule:
    """Every so many steps, or at the end of each epoch, once a share `start` of the run's steps is done."""

    start: float = 0.5
    every: int | Literal["pass"] = "pass"

    def __post_init__(self) -> None:
        if not 0 <= self.start < 1:
            raise ValueError(f"`ensemble.start` must be at least 0 and below 1, got {self.start}.")
        if self.every != "pass" and self.every < 1:
            raise ValueError(f'`ensemble.every` must be at least 1 or "pass", got {self.every}.')

    def steps(self, *, num_steps: int, steps_per_epoch: int) -> range:
        """The numbers of steps done after which weights are collected; ValueError if they are too few."""
        every = steps_per_epoch if self.every == "pass" else self.every
        first = max(1, math.ceil(self.start * num_steps / every)) * every
        steps = range(first, num_steps + 1, every)
        if len(steps) < _FEWEST:
            raise ValueError(
                f"`ensemble.every` must leave SWAG at least {_FEWEST} sets of weights: of {num_steps} steps from "
                f"{self.start:g} of them on, every {every} are {len(steps)}."
            )
        return steps


def weight_collector(
    spec: RunSpec, model: nn.Module, optimizer: torch.optim.Optimizer, *, steps_per_epoch: int
) -> Callable[[int], None] | None:
    """What is to be done after every step, given how many are done; None where nothing is collected."""
    if isinstance(model, BSAMSampling):
        sampling = model
        return lambda step: sampling.collect(sampling.model, optimizer)
    if isinstance(model, SWAG):
        swag = model
        chosen = {key: spec.ensemble.options[key] for key in ("start", "every") if key in spec.ensemble.options}
        num_steps = math.ceil(spec.budget / gradients_per_step(spec))
        steps = CollectionSchedule(**chosen).steps(num_steps=num_steps, steps_per_epoch=steps_per_epoch)
        return lambda step: swag.collect(swag.model) if step in steps else None
    return None
