"""Label smoothing by adversarial robustness."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from surefoot.losses.label_smoothing import smoothed_cross_entropy
from surefoot.losses.objective import Batch
from surefoot.predictions import Predictions


class ARAdaLS:
    r"""Label smoothing by groups of like robustness, each with the target that its validation samples ask for.

    A sample of group r has the target t_r for its true class and (1 - t_r) / (K - 1) for each other. After each pass
    t_r <- t_r - rate (confidence - accuracy), of group r of the validation set, cut to [lowest, 1]; all start at 1,
    cross-entropy. Groups are of equal size by rank, the least robust first, in either set by itself. Range [0, inf).

    **Reconstructed.** Qin et al. 2021 rank by the smallest adversarial shift; neither their paper nor code could be
    read. Here robustness is the gap between the two largest logits when the sample was last stepped on, and for
    validation samples after the pass: no attack. Rate, lowest target and groups are ours. Needs the samples' places in
    the training set (others have target 1) and a validation split. Remembers gaps, groups and targets. Costs a
    validation pass for each pass over the training set.
    """

    needs_validation: ClassVar[bool] = True

    def __init__(self, *, num_samples: int, num_groups: int = 10, rate: float = 0.005, lowest: float = 0.5) -> None:
        if num_samples < 1:
            raise ValueError(f"`num_samples` must be at least 1, got {num_samples}.")
        if num_groups < 1:
            raise ValueError(f"`num_groups` must be at least 1, got {num_groups}.")
        if not rate >= 0:
            raise ValueError(f"`rate` must be at least 0, got {rate}.")
        if not 0 < lowest <= 1:
            raise ValueError(f"`lowest` must lie in (0, 1], got {lowest}.")
        self.num_groups, self.rate, self.lowest = num_groups, rate, lowest
        self.gaps = torch.zeros(num_samples, dtype=torch.float64, device="cpu")  # [N_train], the latest
        self.groups = torch.zeros(num_samples, dtype=torch.int64, device="cpu")  # [N_train], of the pass before
        self.targets = torch.ones(num_groups, dtype=torch.float64, device="cpu")  # [R]

    def __call__(self, model: nn.Module, batch: Batch, /) -> Tensor:
        logits: Tensor = model(batch.inputs)
        places = batch.indices.to(self.groups.device)
        target = torch.where(places >= 0, self.targets[self.groups[places]], 1.0)
        share = smoothing(target, num_classes=logits.shape[1]).to(logits.device)
        return smoothed_cross_entropy(logits, batch.labels, share.float() if logits.dtype.itemsize <= 4 else share)

    def after_step(self, batch: Batch, logits: Tensor) -> None:
        """Keep how robust the samples were."""
        self.gaps[batch.indices.to(self.gaps.device)] = _robustness(logits).to(self.gaps)

    def after_epoch(self, validation: Predictions | None) -> None:
        """Move the targets and form new groups."""
        if validation is None:
            raise ValueError("AR-AdaLS needs a validation split, got none: set `num_validation` of the data.")
        groups = _by_rank(_robustness(validation.logits.cpu()), self.num_groups)
        gap = validation.confidence.cpu() - validation.correct.cpu().double()
        counts = torch.bincount(groups, minlength=self.num_groups).clamp(min=1)
        over = torch.bincount(groups, weights=gap, minlength=self.num_groups) / counts
        self.targets = (self.targets - self.rate * over).clamp(self.lowest, 1.0)
        self.groups = _by_rank(self.gaps, self.num_groups)

    def state_dict(self) -> dict[str, Any]:
        """Gaps, groups and targets."""
        return {"gaps": self.gaps.clone(), "groups": self.groups, "targets": self.targets}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        if state["gaps"].shape != self.gaps.shape or state["targets"].shape != self.targets.shape:
            raise ValueError(
                f"The state is of {len(state['gaps'])} samples in {len(state['targets'])} groups, "
                f"this AR-AdaLS of {len(self.gaps)} in {self.num_groups}."
            )
        self.gaps, self.groups, self.targets = (state[name].clone() for name in ("gaps", "groups", "targets"))


def smoothing(target: Tensor, *, num_classes: int) -> Tensor:
    """The share spread over all classes that leaves the true one `target`: (1 - target) K / (K - 1)."""
    return (1 - target) * num_classes / (num_classes - 1)


def _robustness(logits: Tensor) -> Tensor:
    top = logits.double().topk(2, dim=1).values
    return top[:, 0] - top[:, 1]


def _by_rank(values: Tensor, num_groups: int) -> Tensor:
    """The group of each sample, of equal sizes up to one, by rank; ties by place."""
    order = values.argsort(stable=True)
    groups = torch.empty_like(order)
    groups[order] = torch.arange(len(values), device=values.device) * num_groups // len(values)
    return groups
