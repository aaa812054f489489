"""Focal loss whose exponents follow the calibration of validation predictions."""

import math
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from surefoot.losses._outputs import power, true_log_probability
from surefoot.losses.objective import Batch
from surefoot.predictions import Predictions


class AdaFocal:
    r"""Focal loss with an exponent for each bin of the true class's probability p, moved after each pass.

    -(1 - p)^gamma ln p in a bin where gamma > 0, -(1 + p)^|gamma| ln p, which hurries, where gamma < 0. After each pass
    over the training set: bins of equal mass of the validation confidences, E = confidence - accuracy in each, and
    gamma <- gamma exp(+-rate E), + for positive ones; one that falls below `switch` in size changes sign, to `switch`;
    all are cut to [lowest, highest]. Exponents stay with the number of their bin when its edges move.

    Range [0, inf). Ghosh et al. 2022 with the defaults of their code; they sum over the batch and clip gradients,
    training here takes the mean. Needs a validation split, which is then no longer clean to fit a temperature on.
    Remembers `gammas` and `edges`. Costs a validation pass for each pass over the training set.
    """

    needs_validation: ClassVar[bool] = True

    def __init__(
        self,
        *,
        num_bins: int = 15,
        rate: float = 1.0,
        first: float = 1.0,
        lowest: float = -2.0,
        highest: float = 20.0,
        switch: float = 0.2,
    ) -> None:
        if num_bins < 1:
            raise ValueError(f"`num_bins` must be at least 1, got {num_bins}.")
        if not 0 <= rate < math.inf:
            raise ValueError(f"`rate` must be at least 0 and finite, got {rate}.")
        if not switch > 0:
            raise ValueError(f"`switch` must be positive, got {switch}.")
        if not (lowest <= -switch and switch <= highest < math.inf):
            raise ValueError(
                f"`lowest` and `highest` must lie around [-{switch}, {switch}], plus and minus `switch`, "
                f"got {lowest} and {highest}."
            )
        if not (lowest <= first <= highest and first != 0):
            raise ValueError(f"`first` must lie in [{lowest}, {highest}] and not be 0, got {first}.")
        self.rate, self.lowest, self.highest, self.switch = rate, lowest, highest, switch
        self.gammas = torch.full((num_bins,), float(first), dtype=torch.float64, device="cpu")  # [M]
        self.edges = torch.linspace(0, 1, num_bins + 1, dtype=torch.float64, device="cpu")  # [M + 1]

    def __call__(self, logits: Tensor, labels: Tensor, /) -> Tensor:
        logp = true_log_probability(logits, labels)
        p = logp.exp()
        bins = torch.bucketize(p.detach(), self.edges[1:-1].to(p), right=True)
        gamma = self.gammas.to(p)[bins]
        slower = power(-torch.expm1(logp), gamma.clamp(min=0))
        faster = (1 + p).pow(-gamma.clamp(max=0))
        return -slower * faster * logp  # [N]; one of the two is 1

    def after_step(self, batch: Batch, logits: Tensor) -> None:
        """Nothing to do."""

    def after_epoch(self, validation: Predictions | None) -> None:
        """Move edges and exponents."""
        if validation is None:
            raise ValueError("AdaFocal needs a validation split, got none: set `num_validation` of the data.")
        confidence, correct = validation.confidence.cpu().numpy(), validation.correct.cpu().numpy()
        size, num_bins = len(confidence), len(self.gammas)
        edges = np.interp(np.linspace(0, size, num_bins + 1), np.arange(size), np.sort(confidence))
        bins = np.searchsorted(edges[1:], confidence)  # (lower, upper]
        inside = confidence > edges[0]  # so that the smallest belongs to none
        counts = np.bincount(bins[inside], minlength=num_bins)
        gap = np.bincount(bins[inside], (confidence - correct)[inside], minlength=num_bins) / counts.clip(min=1)
        self.edges = torch.from_numpy(edges)
        self.gammas = self.moved(self.gammas, torch.from_numpy(gap))

    def moved(self, gammas: Tensor, gap: Tensor) -> Tensor:
        """The exponents after a pass with these gaps."""
        updated = gammas * torch.exp(self.rate * gap * gammas.sign())
        updated = torch.where(updated.abs() < self.switch, -self.switch * gammas.sign(), updated)
        return updated.clamp(self.lowest, self.highest)

    def state_dict(self) -> dict[str, Any]:
        """Exponents and edges."""
        return {"gammas": self.gammas, "edges": self.edges}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        if state["gammas"].shape != self.gammas.shape:
            raise ValueError(f"The state has {len(state['gammas'])} bins, this AdaFocal {len(self.gammas)}.")
        self.gammas, self.edges = state["gammas"].clone(), state["edges"].clone()
