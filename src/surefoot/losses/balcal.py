"""Balanced calibration by a learnt and a fixed head."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.losses._outputs import wide
from surefoot.losses.objective import Batch
from surefoot.losses.two_heads import TwoHeads
from surefoot.predictions import Predictions

_TOLERANCE = 1e-4  # of the bisection


class BalCAL:
    r"""share x cross-entropy of the learnt head + (1 - share) x that of the fixed one, classes balanced.

    For a `TwoHeads` model, which `wrapped` makes of a plain one. The fixed head's logits are multiplied, per class k,
    by sqrt((N / classes in the batch) / count_k), 1 for absent classes. After each pass the share is set from all
    logits of the training set as they were stepped on: 1 where the learnt head's confidence lies below `target` x its
    accuracy, else by bisection for the share at which the mixture's confidence is that. Range [0, inf).

    Ni et al. 2025 with their first share and, for CIFAR-10, target; their optimizer, number of epochs and convolutional
    adaptor are not part of this. Couples the samples of a batch by the counts of their labels. Remembers the logits of
    a pass, [2, N_train, K]; the share is the model's. About 1.1 gradients.
    """

    couples_samples: ClassVar[bool] = True

    def __init__(self, *, model: TwoHeads, num_samples: int, target: float = 0.95) -> None:
        if not isinstance(model, TwoHeads):
            raise ValueError(f"`model` must be a TwoHeads, got {type(model).__name__}: see `BalCAL.wrapped`.")
        if not 0 < target <= 1:
            raise ValueError(f"`target` must lie in (0, 1], got {target}.")
        self.model, self.target = model, target
        self.logits = torch.zeros(2, num_samples, model.learnt.out_features, device="cpu")
        self.labels = torch.zeros(num_samples, dtype=torch.int64, device="cpu")

    @staticmethod
    def wrapped(model: nn.Module, *, seed: int = 0) -> nn.Module:
        """The model with both heads."""
        return TwoHeads(model, seed=seed)

    def __call__(self, model: nn.Module, batch: Batch, /) -> Tensor:
        learnt, fixed = wide(model(batch.inputs, apart=True))
        share = self.model.share.to(learnt)
        balanced = fixed * class_weights(batch.labels, num_classes=fixed.shape[1]).to(fixed)
        first, second = (F.cross_entropy(part, batch.labels, reduction="none") for part in (learnt, balanced))
        return share * first + (1 - share) * second  # [N]

    def after_step(self, batch: Batch, logits: Tensor) -> None:
        """Store the logits of both heads."""
        places = batch.indices.to(self.logits.device)
        self.logits[:, places] = logits.to(self.logits)
        self.labels[places] = batch.labels.to(self.labels)

    def after_epoch(self, validation: Predictions | None) -> None:
        """Update the share, from the training logits alone."""
        with torch.no_grad():
            self.model.share.fill_(balanced_share(self.logits, self.labels, self.target, now=float(self.model.share)))

    def state_dict(self) -> dict[str, Any]:
        """The logits of the pass so far, and their labels."""
        # "said" is the key that earlier checkpoints have
        return {"said": self.logits.clone(), "labels": self.labels.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        if state["said"].shape != self.logits.shape:
            raise ValueError(
                f"The state is of logits {list(state['said'].shape)}, this BalCAL's of {list(self.logits.shape)}."
            )
        self.logits, self.labels = state["said"].clone(), state["labels"].clone()


def class_weights(labels: Tensor, *, num_classes: int) -> Tensor:
    """The square root of the mean count of the classes that are there over a class's own; 1 for absent ones."""
    counts = F.one_hot(labels.long(), num_classes=num_classes).sum(dim=0).double()
    mean = len(labels) / (counts > 0).sum()
    return torch.where(counts > 0, (mean / counts.clamp(min=1)).sqrt(), 1.0)  # [K]


def balanced_share(logits: Tensor, labels: Tensor, target: float, *, now: float) -> float:
    """The share of the learnt head at which the confidence of the mixture is `target` x its accuracy; 1 if it is less.

    By bisection as the authors have it: of the shares tried, the last that comes closer than the learnt head alone.
    """

    def lack(share: float) -> float:
        confidence, guess = (share * logits[0] + (1 - share) * logits[1]).double().softmax(dim=1).max(dim=1)
        return target * float((guess == labels).double().mean()) - float(confidence.mean())

    alone = lack(1.0)
    if alone > 0:
        return 1.0
    low, high, closest = 0.0, 1.0, now
    while high - low > _TOLERANCE:
        middle = (low + high) / 2
        gap = lack(middle)
        if abs(gap) < abs(alone):
            closest = middle
        low, high = (middle, high) if gap > 0 else (low, middle)
    return closest
