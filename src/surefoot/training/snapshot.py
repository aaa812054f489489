"""The model at one moment, for observers to look at."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from surefoot.data import Split
from surefoot.eval_mode import evaluating
from surefoot.losses import Batch, Lifted, Objective
from surefoot.predictions import Predictions
from surefoot.training.process_group import ProcessGroup

_AT_ONCE = 2000  # samples in one forward pass: all of CIFAR-10 in a wide network would not fit
_IN_CACHE = 2**18  # numbers of the inputs in one pass on a CPU: for ResNet-8 on CIFAR-10 2.5 times as fast as 2,000
_FEWEST = 16


class Diverged(Exception):
    """Training left the finite numbers, or the loss exploded; the message says where."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Model, objective and data splits at one step; each split is passed forward once, shared by all observers.

    Of several processes each passes its part of a split through the model, and all have the logits of the whole.
    """

    step: int
    model: nn.Module
    objective: Objective
    splits: Mapping[str, Split]
    process_group: ProcessGroup = field(default_factory=ProcessGroup)
    last: bool = False  # nothing comes after it: the moment for what is too dear to look at along training
    _logits: dict[str, Tensor] = field(default_factory=dict, init=False, repr=False)
    _predictions: dict[str, Predictions] = field(default_factory=dict, init=False, repr=False)

    def predictions(self, split: str) -> Predictions:
        """What the model says about a split, in eval mode."""
        if split not in self._predictions:
            logits, labels = self.logits(split), self.splits[split].labels
            if logits.device.type == "mps":  # has no float64, which the metrics accumulate in
                logits, labels = logits.cpu(), labels.cpu()
            self._predictions[split] = Predictions(logits, labels)
        return self._predictions[split]

    def logits(self, split: str) -> Tensor:
        """Logits of a split, in eval mode, without a graph."""
        if split not in self._logits:
            inputs = self.part(split).inputs
            with evaluating(self.model), torch.no_grad():
                logits = torch.cat([self.model(part) for part in torch.split(inputs, at_once(self.model, inputs))])
            logits = self.process_group.gathered(logits, number=len(self.splits[split].labels))
            if not bool(logits.isfinite().all()):
                raise Diverged(f"logits of the {split} set are not finite at step {self.step}")
            self._logits[split] = logits
        return self._logits[split]

    def part(self, split: str) -> Split:
        """The samples of a split that are this process's."""
        whole = self.splits[split]
        if self.process_group.count == 1:
            return whole
        mine = self.process_group.part(len(whole.labels))
        return Split(whole.inputs[mine], whole.labels[mine])

    def loss(self, split: str) -> float:
        """Mean of the objective over a split."""
        data = self.splits[split]
        with evaluating(self.model), torch.no_grad():
            if isinstance(self.objective, Lifted):
                values = self.objective.loss(self.logits(split), data.labels)
            else:
                indices = torch.arange(len(data.labels), device=data.labels.device)
                if split != "train":
                    indices = torch.full_like(indices, -1)
                size = at_once(self.model, data.inputs)
                parts = zip(*(torch.split(each, size) for each in (data.inputs, data.labels, indices)), strict=True)
                values = torch.cat([self.objective(self.model, Batch(*part)) for part in parts])
        return float(values.mean())


def at_once(model: nn.Module, inputs: Tensor) -> int:
    """How many samples are passed forward together: through convolutions on a CPU so few that they stay in its cache.

    Dense layers make inputs smaller, and reading their weights again for every part takes longer than it saves.
    """
    convolving = any(isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d) for layer in model.modules())
    if inputs.device.type != "cpu" or not convolving:
        return _AT_ONCE
    return min(max(_IN_CACHE // max(inputs[:1].numel(), 1), _FEWEST), _AT_ONCE)
